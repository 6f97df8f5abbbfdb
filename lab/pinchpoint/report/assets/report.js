"use strict";
// Draws the plots in the colours of the reader's theme, links those over the same quantity, sorts tables of trials.
(() => {
  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const config = {
    displaylogo: false,
    responsive: true,
    showTips: false,
    modeBarButtons: [["toImage", "resetScale2d"]],
    toImageButtonOptions: { format: "svg", filename: "pinchpoint" },
  };
  const PAPER_WIDTH = 680;

  // A text like "@accent" stands for the CSS variable --accent.
  const painted = (value, style) => {
    if (typeof value === "string") {
      return value.startsWith("@") ? style.getPropertyValue("--" + value.slice(1)).trim() : value;
    }
    if (Array.isArray(value)) return value.map((item) => painted(item, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, painted(item, style)]));
    }
    return value;
  };

  // What is folded away has no size: it is drawn when it is unfolded.
  const folded = (element) => element.parentElement.closest("details:not([open])");

  // Plots whose x axes have one title and one scale are zoomed together, and show the same place under the pointer.
  const NEAR = 0.02; // of the axis
  const axis = (plot) => plot.layout?.xaxis ?? {};
  const linked = (plot) =>
    figures
      .map(({ id }) => document.getElementById(id))
      .filter((other) => {
        const [a, b] = [axis(plot), axis(other)];
        return other !== plot && other.data && !folded(other) && a.title?.text && a.title.text === b.title?.text && a.type === b.type;
      });
  const pointTo = (plot, x) => {
    const { type, range } = axis(plot);
    const at = (value) => (type === "log" ? Math.log10(value) : value);
    let away = NEAR * Math.abs(range[1] - range[0]);
    let best;
    plot.data.forEach((trace, curveNumber) => {
      if (trace.hoverinfo === "skip" || trace.visible === "legendonly") return;
      Array.from(trace.x ?? []).forEach((value, pointNumber) => {
        const own = Math.abs(at(value) - at(x));
        if (trace.y?.[pointNumber] == null || !(own < away)) return;
        away = own;
        best = { curveNumber, pointNumber, subplot: (trace.xaxis ?? "x") + (trace.yaxis ?? "y") };
      });
    });
    if (best) Plotly.Fx.hover(plot, [best], best.subplot);
    else Plotly.Fx.unhover(plot);
  };
  const led = new Set(); // plots that another one has zoomed: they do not lead in turn
  const link = (plot) => {
    plot.on("plotly_relayout", (change) => {
      if (led.delete(plot)) return;
      const [low, high] = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      if (low === undefined && !change["xaxis.autorange"]) return;
      for (const other of linked(plot)) {
        const own = figures.find(({ id }) => id === other.id).layout.xaxis?.range;
        const range = low === undefined ? own : [low, high];
        led.add(other);
        Plotly.relayout(other, range ? { "xaxis.range": [...range] } : { "xaxis.autorange": true });
      }
    });
    plot.on("plotly_hover", ({ points: [point] }) => {
      if (typeof point.x === "number") for (const other of linked(plot)) pointTo(other, point.x);
    });
    plot.on("plotly_unhover", () => linked(plot).forEach((other) => Plotly.Fx.unhover(other)));
  };
  document.addEventListener("drawn", ({ detail }) => link(detail));

  const draw = (width, within = document) => {
    const style = getComputedStyle(root);
    for (const figure of figures) {
      const place = document.getElementById(figure.id);
      if (folded(place) || !within.contains(place)) continue;
      const layout = painted(figure.layout, style);
      if (width) layout.width = width;
      const { data } = figures.find((other) => other.id === (figure.data_of ?? figure.id));
      const isNew = !place.data;
      Plotly.react(figure.id, painted(data, style), layout, config);
      if (isNew) link(place);
    }
  };

  const sortBy = (header) => {
    const table = header.closest("table");
    const column = [...header.parentNode.children].indexOf(header);
    const falling = header.getAttribute("aria-sort") === "ascending";
    for (const other of header.parentNode.children) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", falling ? "descending" : "ascending");
    const key = (row) => row.children[column].dataset.sort ?? row.children[column].textContent.trim();
    const compare = (one, two) => {
      const [a, b] = [key(one), key(two)];
      const order = a !== "" && b !== "" && !isNaN(a) && !isNaN(b) ? a - b : a.localeCompare(b);
      return falling ? -order : order;
    };
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
  };

  // A page that follows a run replaces a figure by a newer one.
  document.addEventListener("figure", ({ detail }) => {
    const place = figures.findIndex((figure) => figure.id === detail.id);
    if (place < 0) figures.push(detail);
    else figures[place] = detail;
    draw();
  });
  document.addEventListener("click", (event) => {
    const header = event.target.closest("table.sortable th");
    if (header) sortBy(header);
  });
  const width = () => (root.classList.contains("paper") ? PAPER_WIDTH : undefined);
  document.addEventListener("toggle", (event) => event.target.open && draw(width(), event.target), true);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
  // Paper has all of a scenario, below its card.
  let unfolded = [];
  addEventListener("beforeprint", () => {
    root.classList.add("paper");
    unfolded = [...document.querySelectorAll("details.rest:not([open])")];
    for (const rest of unfolded) rest.open = true;
    draw(PAPER_WIDTH);
  });
  addEventListener("afterprint", () => {
    root.classList.remove("paper");
    for (const rest of unfolded) rest.open = false;
    draw();
  });
  draw();
})();
