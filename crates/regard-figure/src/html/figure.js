// Shows the row, the column and the number of the cell under the pointer, and marks the cell.
for (const figure of document.querySelectorAll(".regard:not([data-on])")) {
  figure.dataset.on = "";
  const svg = figure.querySelector("svg"), tip = figure.querySelector(".tip");
  const { cells: all, labels, numbers, digits } = JSON.parse(figure.querySelector("script").textContent);
  for (const cells of all) [cells.rows, cells.cols] = [labels[cells.rows], labels[cells.cols]];
  // The highest byte of each number comes first, then the next byte of each.
  const unpacked = async () => {
    const bytes = Uint8Array.from(atob(numbers), c => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const planes = new Uint8Array(await new Response(stream).arrayBuffer()), n = planes.length / 4;
    const values = new DataView(new ArrayBuffer(4 * n));
    for (let byte = 0; byte < 4; byte++)
      for (let i = 0; i < n; i++) values.setUint8(4 * i + byte, planes[byte * n + i]);
    let from = 0;
    for (const cells of all) {
      const start = from;
      cells.value = i => values.getFloat32(4 * (start + i));
      from += cells.rows.length * cells.cols.length;
    }
  };
  unpacked();
  const mark = document.createElementNS(svg.namespaceURI, "rect");
  for (const [name, value] of [["fill", "none"], ["stroke", "var(--ink)"], ["stroke-width", 1.5], ["pointer-events", "none"]])
    mark.setAttribute(name, value);
  svg.append(mark);
  const number = (x, cells) => Number.isNaN(x) ? "NaN"
    : x === -Infinity ? "masked (" + cells.masked + ")"
    : x === Infinity ? "∞" : String(+x.toPrecision(digits)).replace("-", "−");
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
        + (cells.value ? number(cells.value(row * cells.cols.length + col), cells) : "…");
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
