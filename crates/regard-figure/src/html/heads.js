// A strip of all heads, whose rows are layers; the chosen head as lines between tokens and as a matrix; and the number under the pointer.
for (const figure of document.querySelectorAll(".regard-heads:not([data-on])")) {
  figure.dataset.on = "";
  const { shape: [texts, layers, heads, queries, keys], layers: names, tokens, range: [low, high], colors, digits, numbers } =
    JSON.parse(figure.querySelector("script").textContent);
  const body = document.body;
  const dark = body.dataset.jpThemeLight ? body.dataset.jpThemeLight === "false"
    : body.classList.contains("vscode-dark") || (!body.classList.contains("vscode-light") && matchMedia("(prefers-color-scheme: dark)").matches);
  figure.classList.add(dark ? "dark" : "light");
  const ink = dark ? "#e4e4e6" : "#222", quiet = dark ? "#a0a0a8" : "#666", line = dark ? [255, 170, 70] : [170, 60, 0];
  const texel = colors[dark ? 1 : 0], count = texel.length / 6;
  const rgb = i => [0, 2, 4].map(at => parseInt(texel.substr(6 * i + at, 2), 16));
  const palette = Array.from({ length: count }, (_, i) => rgb(i));
  const color = x => palette[x >= high ? count - 1 : x > low ? Math.floor((x - low) / (high - low) * (count - 1) + 0.5) : 0];
  const make = (tag, parent, text) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  };
  const scale = Math.max(1, devicePixelRatio || 1);
  const surface = (parent, width, height) => {
    const view = make("div", parent), canvas = make("canvas", view);
    view.className = "view";
    const size = (width, height) => {
      [canvas.width, canvas.height] = [width * scale, height * scale];
      [canvas.style.width, canvas.style.height] = [width + "px", height + "px"];
      const context = canvas.getContext("2d");
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.font = '12px "IBM Plex Sans", Verdana, "DejaVu Sans", "Noto Sans", sans-serif';
      context.textBaseline = "middle";
      return context;
    };
    return { canvas, size, context: size(width, height) };
  };
  const tip = make("output", figure);
  tip.className = "tip";
  const say = (event, text) => {
    tip.style.display = text ? "block" : "none";
    if (!text) return;
    tip.textContent = text;
    const box = figure.getBoundingClientRect();
    tip.style.left = Math.max(0, Math.min(event.clientX - box.left + 14, box.width - tip.offsetWidth - 4)) + "px";
    tip.style.top = event.clientY - box.top + 16 + "px";
  };
  const number = x => Number.isNaN(x) ? "NaN" : x === -Infinity ? "masked" : x === Infinity ? "∞" : String(+x.toPrecision(digits)).replace("-", "−");
  let values, text = 0, layer = 0, head = 0, near = null;
  const start = (l, h) => (((text * layers + l) * heads) + h) * queries * keys;
  const at = (q, k) => values[start(layer, head) + q * keys + k];
  const word = (side, i) => tokens[text][side][i] || String(i);
  const named = (side, i) => `${i} ${tokens[text][side][i]}`.trim();
  const group = parent => {
    const element = make("div", parent);
    element.className = "views";
    return element;
  };

  if (texts > 1) {
    const label = make("label", figure, "text "), select = make("select", label);
    for (let i = 0; i < texts; i++) make("option", select, `${i}: ${tokens[i][0].join("").replaceAll("␣", " ").slice(0, 60)}`).value = i;
    select.addEventListener("change", () => { text = +select.value; strip(); large(); });
  }
  // The strip
  const thumb = Math.max(10, Math.min(44, Math.floor(660 / heads), Math.floor(300 / layers))), gap = 2, step = thumb + gap;
  const left = 14 + Math.max(...names.map(name => name.length)) * 7, top = 18;
  const whole = group(figure), all = surface(whole, left + heads * step, top + layers * step);
  all.canvas.setAttribute("role", "img");
  all.canvas.setAttribute("aria-label", `${layers} layers of ${heads} heads`);
  // A head as a picture. A pixel shows the largest of `factor` × `factor` numbers.
  const image = (l, h, factor) => {
    const small = document.createElement("canvas");
    const [width, height] = [small.width, small.height] = [Math.ceil(keys / factor), Math.ceil(queries / factor)];
    const context = small.getContext("2d"), pixels = context.createImageData(width, height), from = start(l, h);
    const most = new Float32Array(width * height).fill(-Infinity);
    for (let q = 0; q < queries; q++)
      for (let k = 0; k < keys; k++) {
        const i = Math.floor(q / factor) * width + Math.floor(k / factor), x = values[from + q * keys + k];
        if (!(most[i] > x)) most[i] = x;
      }
    most.forEach((x, i) => pixels.data.set([...color(x), 255], 4 * i));
    context.putImageData(pixels, 0, 0);
    return small;
  };
  const strip = () => {
    const context = all.size(left + heads * step, top + layers * step);
    context.fillStyle = quiet;
    context.textAlign = "center";
    for (let h = 0; h < heads; h++) if (heads < 20 || h % 4 === 0) context.fillText(h, left + h * step + thumb / 2, top / 2);
    context.textAlign = "right";
    names.forEach((name, l) => context.fillText(name, left - 6, top + l * step + thumb / 2));
    context.imageSmoothingEnabled = false;
    const factor = Math.ceil(Math.max(queries, keys) / thumb);
    for (let l = 0; l < layers; l++)
      for (let h = 0; h < heads; h++) context.drawImage(image(l, h, factor), left + h * step, top + l * step, thumb, thumb);
    context.strokeStyle = ink;
    context.lineWidth = 2;
    context.strokeRect(left + head * step - 1, top + layer * step - 1, thumb + 2, thumb + 2);
  };
  const over = event => {
    const box = all.canvas.getBoundingClientRect();
    const h = Math.floor((event.clientX - box.left - left) / step), l = Math.floor((event.clientY - box.top - top) / step);
    return h >= 0 && l >= 0 && h < heads && l < layers ? [l, h] : null;
  };
  all.canvas.addEventListener("pointermove", event => {
    const found = over(event);
    all.canvas.style.cursor = found ? "pointer" : "";
    say(event, found && `${names[found[0]]}, head ${found[1]}`);
  });
  all.canvas.addEventListener("pointerleave", event => say(event, null));
  all.canvas.addEventListener("click", event => {
    const found = over(event);
    if (found) { [layer, head] = found; near = null; strip(); large(); }
  });
  // The chosen head
  const chosen = make("div", whole), title = make("h4", chosen), views = group(chosen), lines = surface(views, 10, 10), matrix = surface(views, 10, 10);
  const row = Math.max(13, Math.min(20, Math.floor(640 / Math.max(queries, keys))));
  const cell = Math.max(4, Math.min(26, Math.floor(640 / Math.max(queries, keys))));
  const measure = side => Math.min(180, 8 + Math.max(32, ...tokens[text][side].map((_, i) => lines.context.measureText(word(side, i)).width)));
  let sides = [60, 60];
  const between = 170, reads = cell >= 8;
  const width = () => sides[0] + between + sides[1];
  const large = () => {
    title.textContent = `${names[layer]}, head ${head}`;
    sides = [measure(0), measure(1)];
    drawLines();
    drawMatrix();
  };
  const shows = (q, k) => near === null || (near[0] === null || near[0] === q) && (near[1] === null || near[1] === k);
  const drawLines = () => {
    const context = lines.size(width(), 22 + Math.max(queries, keys) * row);
    context.fillStyle = quiet;
    context.textAlign = "right";
    context.fillText("query", sides[0] - 4, 10);
    context.textAlign = "left";
    context.fillText("key", sides[0] + between + 4, 10);
    const y = i => 22 + i * row + row / 2, limit = Math.max(Math.abs(low), Math.abs(high));
    for (let q = 0; q < queries; q++)
      for (let k = 0; k < keys; k++) {
        const x = at(q, k), strength = Math.min(1, Math.abs(x) / limit);
        if (!(strength > 0.01) || !shows(q, k)) continue;
        context.strokeStyle = x < 0 ? `rgba(60, 110, 220, ${strength})` : `rgba(${line}, ${strength})`;
        context.lineWidth = 0.5 + 2 * strength;
        context.beginPath();
        context.moveTo(sides[0], y(q));
        context.lineTo(sides[0] + between, y(k));
        context.stroke();
      }
    const column = (side, x, align) => {
      context.textAlign = align;
      tokens[text][side].forEach((_, i) => {
        context.fillStyle = near && near[side] !== null && near[side] !== i ? quiet : ink;
        context.fillText(word(side, i), x, y(i), 172);
      });
    };
    column(0, sides[0] - 4, "right");
    column(1, sides[0] + between + 4, "left");
  };
  const drawMatrix = () => {
    const [x0, y0] = reads ? [sides[0], sides[1]] : [4, 4];
    const context = matrix.size(x0 + keys * cell + 4, y0 + queries * cell + 4);
    context.imageSmoothingEnabled = false;
    context.drawImage(image(layer, head, 1), x0, y0, keys * cell, queries * cell);
    context.strokeStyle = ink;
    context.lineWidth = 1.5;
    if (near && near[0] !== null && near[1] !== null) context.strokeRect(x0 + near[1] * cell, y0 + near[0] * cell, cell, cell);
    if (!reads) return;
    context.fillStyle = ink;
    context.font = context.font.replace("12px", `${Math.min(12, cell + 1)}px`);
    context.textAlign = "right";
    tokens[text][0].forEach((_, i) => context.fillText(word(0, i), x0 - 4, y0 + i * cell + cell / 2, sides[0] - 6));
    context.textAlign = "left";
    tokens[text][1].forEach((_, i) => {
      context.save();
      context.translate(x0 + i * cell + cell / 2, y0 - 4);
      context.rotate(-Math.PI / 2);
      context.fillText(word(1, i), 0, 0, sides[1] - 6);
      context.restore();
    });
  };
  const told = (event, found) => {
    if (JSON.stringify(found) !== JSON.stringify(near)) { near = found; drawLines(); drawMatrix(); }
    if (!found) return say(event, null);
    const [q, k] = found;
    if (q !== null && k !== null) return say(event, `query ${named(0, q)}\nkey ${named(1, k)}\n${number(at(q, k))}`);
    const [side, i, others] = q !== null ? [0, q, keys] : [1, k, queries];
    const list = Array.from({ length: others }, (_, j) => [side ? at(j, i) : at(i, j), j]).filter(([x]) => x === x).sort((a, b) => b[0] - a[0]).slice(0, 5);
    say(event, [`${side ? "key" : "query"} ${named(side, i)}`, ...list.map(([x, j]) => `${number(x)}  ${named(1 - side, j)}`)].join("\n"));
  };
  lines.canvas.addEventListener("pointermove", event => {
    const box = lines.canvas.getBoundingClientRect(), i = Math.floor((event.clientY - box.top - 22) / row), isKey = event.clientX - box.left > sides[0] + between / 2;
    told(event, i >= 0 && i < (isKey ? keys : queries) ? (isKey ? [null, i] : [i, null]) : null);
  });
  matrix.canvas.addEventListener("pointermove", event => {
    const box = matrix.canvas.getBoundingClientRect(), [x0, y0] = reads ? [sides[0], sides[1]] : [4, 4];
    const k = Math.floor((event.clientX - box.left - x0) / cell), q = Math.floor((event.clientY - box.top - y0) / cell);
    told(event, k >= 0 && q >= 0 && k < keys && q < queries ? [q, k] : null);
  });
  for (const { canvas } of [lines, matrix]) canvas.addEventListener("pointerleave", event => told(event, null));
  // The highest byte of each number comes first, then the next byte of each.
  (async () => {
    const bytes = Uint8Array.from(atob(numbers), c => c.charCodeAt(0));
    const stream = new Response(bytes).body.pipeThrough(new DecompressionStream("deflate"));
    const planes = new Uint8Array(await new Response(stream).arrayBuffer()), n = planes.length / 4;
    const view = new DataView(new ArrayBuffer(4 * n));
    for (let byte = 0; byte < 4; byte++) for (let i = 0; i < n; i++) view.setUint8(4 * i + byte, planes[byte * n + i]);
    values = Float32Array.from({ length: n }, (_, i) => view.getFloat32(4 * i));
    strip();
    large();
  })();
}
