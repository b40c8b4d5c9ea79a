// Shows the row, the column and the number of the cell under the pointer, and marks the cell.
for (const figure of document.querySelectorAll(".regard:not([data-on])")) {
  figure.dataset.on = "";
  const svg = figure.querySelector("svg"), tip = figure.querySelector(".tip");
  const all = JSON.parse(figure.querySelector("script").textContent);
  for (const cells of all) {
    const bytes = Uint8Array.from(atob(cells.values), c => c.charCodeAt(0));
    cells.values = new Float32Array(bytes.buffer);
  }
  const mark = document.createElementNS(svg.namespaceURI, "rect");
  for (const [name, value] of [["fill", "none"], ["stroke", "var(--ink)"], ["stroke-width", 1.5], ["pointer-events", "none"]])
    mark.setAttribute(name, value);
  svg.append(mark);
  const number = (x, cells) => Number.isNaN(x) ? "NaN"
    : x === -Infinity ? "masked (" + cells.masked + ")"
    : x === Infinity ? "∞" : String(+x.toPrecision(5)).replace("-", "−");
  const hide = () => { tip.style.display = "none"; mark.style.display = "none"; };
  hide();
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointermove", event => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    for (const cells of all) {
      const [left, top] = cells.at, [width, height] = cells.cell;
      const col = Math.floor((at.x - left) / width), row = Math.floor((at.y - top) / height);
      if (col < 0 || row < 0 || col >= cells.cols.length || row >= cells.rows.length) continue;
      const named = (axis, label) => (axis ? axis + " " : "") + label;
      tip.textContent = (cells.name ? cells.name + "\n" : "")
        + named(cells.axes[0], cells.rows[row]) + "\n" + named(cells.axes[1], cells.cols[col]) + "\n"
        + number(cells.values[row * cells.cols.length + col], cells);
      tip.style.display = mark.style.display = "block";
      for (const [name, value] of [["x", left + col * width], ["y", top + row * height], ["width", width], ["height", height]])
        mark.setAttribute(name, value);
      const box = figure.getBoundingClientRect();
      tip.style.left = Math.max(0, Math.min(event.clientX - box.left + 14, box.width - tip.offsetWidth - 4)) + "px";
      tip.style.top = event.clientY - box.top + 16 + "px";
      return;
    }
    hide();
  });
}
