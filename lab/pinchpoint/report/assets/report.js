"use strict";
// Draws the plots in the colours of the reader's theme and sorts the tables of trials.
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

  const draw = (width, within = document) => {
    const style = getComputedStyle(root);
    for (const figure of figures) {
      const place = document.getElementById(figure.id);
      if (folded(place) || !within.contains(place)) continue;
      const layout = painted(figure.layout, style);
      if (width) layout.width = width;
      const { data } = figures.find((other) => other.id === (figure.data_of ?? figure.id));
      Plotly.react(figure.id, painted(data, style), layout, config);
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
