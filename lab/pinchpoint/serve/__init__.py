"""`pinchpoint serve`: a workshop in the browser, on loopback, over a folder of runs.

`shelf`     the runs' folder, none of whose files leads outside; the studies that ship
`index`     SQLite over the run folders, for lists and filters; rebuilt at any time
`pages`     what each page shows, a run in progress too; templates and figures are the report's wherever it has them
`form`      a scenario from a form that the tables of keys make
`acts`      stop, resume, start
`guard`     Host, Origin, token, headers: before any page is made
`app`       addresses, errors
"""
