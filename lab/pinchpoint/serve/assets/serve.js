// What the workshop's pages add: pictures and data of plots, following a run, how many runs are chosen.
(() => {
  "use strict";
  const EVERY_MS = 2000;

  const save = (name, type, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  // A cell that begins like a formula would be run by a spreadsheet.
  const cell = (value) => {
    let text = value === null || value === undefined ? "" : String(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
    return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };

  const bar = (error, value, place) => {
    if (!error || error.visible === false || !Array.isArray(error.array)) return ["", ""];
    return [value - (error.arrayminus ?? error.array)[place], value + error.array[place]];
  };

  // Every point of every trace, with the ends of its interval.
  const table = (plot) => {
    const titles = plot.layout;
    const x = titles.xaxis?.title?.text ?? "x";
    const y = titles.yaxis?.title?.text ?? "y";
    const rows = [["trace", x, y, "x low", "x high", "y low", "y high", "text"]];
    for (const trace of plot.data) {
      const length = Math.max(trace.x?.length ?? 0, trace.y?.length ?? 0);
      for (let at = 0; at < length; at++) {
        const text = Array.isArray(trace.text) ? trace.text[at] : "";
        const plain = String(text ?? "").replaceAll("<br>", "; ").replace(/<[^>]*>/g, "");
        const own = [trace.x?.[at], trace.y?.[at]];
        // A bar that does not begin at zero is a range.
        const from = Array.isArray(trace.base) ? trace.base[at] : undefined;
        const across = from === undefined ? bar(trace.error_x, own[0], at) : [from, from + own[0]];
        if (from !== undefined) own[0] = "";
        rows.push([trace.name, ...own, ...across, ...bar(trace.error_y, own[1], at), plain]);
      }
    }
    return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
  };

  const page = document.title.split(" · ")[0].replace(/[^A-Za-z0-9._-]+/g, "-");
  const tools = (plot) => {
    if (plot.nextElementSibling?.classList.contains("tools")) return;
    const row = document.createElement("div");
    row.className = "tools";
    const name = `${page}-${plot.id}`;
    const add = (label, act) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.setAttribute("aria-label", `${label} of ${plot.getAttribute("aria-label") ?? plot.id}`);
      button.addEventListener("click", act);
      row.append(button);
    };
    const picture = (format) => () => Plotly.downloadImage(plot, { format, filename: name, width: plot.clientWidth, height: plot.clientHeight, scale: format === "png" ? 2 : 1 });
    add("SVG", picture("svg"));
    add("PNG", picture("png"));
    add("CSV", () => save(`${name}.csv`, "text/csv", table(plot)));
    if (plot.parentElement.classList.contains("columns")) {
      const cell = document.createElement("div");
      plot.before(cell);
      cell.append(plot);
    }
    plot.after(row);
  };
  // A drawing that is not Plotly's, e.g. of a ledger: with the styles that the page gives it.
  const PAINT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size", "font-weight", "text-anchor"];
  const drawing = (svg) => {
    const copy = svg.cloneNode(true);
    const { width, height } = svg.getBoundingClientRect();
    const from = [svg, ...svg.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((element, at) => {
      const style = getComputedStyle(from[at]);
      element.setAttribute("style", PAINT.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    });
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.style.background = getComputedStyle(document.body).backgroundColor;
    return { text: new XMLSerializer().serializeToString(copy), width, height };
  };
  const raster = ({ text, width, height }, name) => {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [2 * width, 2 * height];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(name, "image/png", blob));
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  };
  for (const [place, figure] of [...document.querySelectorAll("figure.path")].entries()) {
    const svg = figure.querySelector("svg");
    const row = document.createElement("div");
    row.className = "tools";
    const name = `${page}-ledger-${place + 1}`;
    const acts = { SVG: () => save(`${name}.svg`, "image/svg+xml", drawing(svg).text), PNG: () => raster(drawing(svg), `${name}.png`) };
    for (const [label, act] of Object.entries(acts)) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.setAttribute("aria-label", `${label} of the ledger, ${figure.querySelector("small").textContent}`);
      button.addEventListener("click", act);
      row.append(button);
    }
    const data = document.querySelector("a.ledger-data");
    if (data) row.append(data);
    figure.append(row);
  }
  const redraw = (plot) => {
    const { data } = plot;
    const layout = { ...plot.layout, width: plot.clientWidth };
    Plotly.newPlot(plot, data, layout, { displaylogo: false, responsive: true });
    document.dispatchEvent(new CustomEvent("drawn", { detail: plot }));
  };
  const equip = () => {
    for (const plot of document.querySelectorAll(".plot:has(.main-svg)")) {
      tools(plot);
      // Drawn beside others that were not there yet, it may be wider than its place is now.
      const drawn = plot.querySelector(".main-svg").clientWidth;
      if (plot.clientWidth && Math.abs(drawn - plot.clientWidth) > 1) redraw(plot);
    }
    for (const wide of document.querySelectorAll(".scroll")) if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
  };
  equip();
  document.addEventListener("toggle", () => setTimeout(equip), true);

  // A table is sorted by its headings; from the keyboard as well.
  for (const head of document.querySelectorAll("table.sortable th")) {
    head.tabIndex = 0;
    head.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      head.click();
    });
  }

  const live = document.getElementById("live");
  const follow = async () => {
    try {
      const answer = await fetch(live.dataset.address, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(answer.status);
      const now = await answer.json();
      if (now.finished || String(now.done) !== live.dataset.done) return location.reload();
      // What the user has in hand is not taken away.
      if (!live.contains(document.activeElement)) live.innerHTML = now.html;
      for (const figure of now.figures) {
        for (const id of [figure.id, `${figure.id}-title`]) document.getElementById(id).hidden = false;
        document.dispatchEvent(new CustomEvent("figure", { detail: figure }));
      }
      equip();
      live.classList.remove("lost");
    } catch {
      live.classList.add("lost");
    }
    setTimeout(follow, EVERY_MS);
  };
  if (live) setTimeout(follow, EVERY_MS);

  const started = document.getElementById("started");
  if (started?.dataset.running) setTimeout(() => location.reload(), EVERY_MS);

  const chosen = document.getElementById("chosen");
  const count = () => {
    const all = document.querySelectorAll("#choose input:checked").length;
    chosen.textContent = all ? `${all} chosen.` : "Choose two or more.";
  };
  if (chosen) {
    document.getElementById("choose").addEventListener("change", count);
    count();
  }
})();
