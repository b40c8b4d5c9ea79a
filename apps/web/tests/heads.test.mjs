// The page on which regard.show of the package for Python draws all heads, in a real browser without a network.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { deflateSync } from "node:zlib";

import { chromium } from "playwright-core";

const html = new URL("../../../crates/regard-figure/src/html/", import.meta.url);
const [script, style] = ["heads.js", "heads.css"].map((name) => readFileSync(new URL(name, html), "utf8"));
const [texts, layers, heads, queries, keys] = [2, 2, 3, 3, 4];
/** A weight, from which its indices can be read. */
const weight = (...indices) => Number(`0.1${indices.join("")}`);
let browser;

before(async () => {
    browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
});
after(() => browser?.close());

/** The page as crates/regard-figure/src/heads.rs writes it. */
function written() {
    const values = [];
    for (let i = 0; i < texts * layers * heads * queries * keys; i++) {
        const at = [keys, queries, heads, layers, texts].reduce(([rest, found], n) => [Math.floor(rest / n), [rest % n, ...found]], [i, []])[1];
        values.push(weight(...at));
    }
    const bytes = Buffer.alloc(4 * values.length);
    values.forEach((x, i) => bytes.writeFloatBE(x, 4 * i));
    const planes = Buffer.from([0, 1, 2, 3].flatMap((byte) => values.map((_, i) => bytes[4 * i + byte])));
    const colors = Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, "0").repeat(3)).join("");
    const told = {
        shape: [texts, layers, heads, queries, keys],
        layers: ["layer 0", "layer 1"],
        tokens: [[["a", "b", "c"], ["w", "x", "y", "z"]], [["", "", ""], ["", "", "", ""]]],
        range: [0, 1],
        colors: [colors, colors],
        digits: 6,
        numbers: deflateSync(planes).toString("base64"),
    };
    return `<!doctype html><style>.regard { position: relative; display: inline-block } .tip { position: absolute; display: none; white-space: pre }
        ${style}</style><figure class="regard regard-heads"><script type="application/json">${JSON.stringify(told)}</script></figure><script>${script}</script>`;
}

test("the heads that regard.show draws: a click chooses one, and the pointer tells its numbers", async (t) => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, offline: true });
    t.after(() => context.close());
    const page = await context.newPage(), complaints = [];
    page.on("console", (message) => complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(String(error)));
    await page.setContent(written());
    const title = page.locator("h4"), tip = page.locator(".tip");
    await title.filter({ hasText: "layer 0, head 0" }).waitFor();
    const [strip, lines, matrix] = await page.locator("canvas").all();
    const size = async (canvas) => canvas.evaluate((element) => [element.clientWidth, element.clientHeight]);
    // The cells and heads end 4 pixels before a canvas does, and at its end.
    const overCell = async (query, key) => {
        const [width, height] = await size(matrix);
        await matrix.hover({ position: { x: width - 4 - 26 * (keys - key - 0.5), y: height - 4 - 26 * (queries - query - 0.5) } });
        return (await tip.textContent()).split("\n");
    };
    assert.deepEqual(await overCell(2, 1), ["query 2 c", "key 1 x", String(weight(0, 0, 0, 2, 1))]);
    const overHead = async (layer, head) => {
        const [width, height] = await size(strip);
        return { position: { x: width - 46 * (heads - head - 0.5), y: height - 46 * (layers - layer - 0.5) } };
    };
    await strip.hover(await overHead(0, 1));
    assert.equal(await tip.textContent(), "layer 0, head 1");
    await strip.click(await overHead(1, 2));
    assert.equal(await title.textContent(), "layer 1, head 2");
    assert.deepEqual(await overCell(0, 3), ["query 0 a", "key 3 z", String(weight(0, 1, 2, 0, 3))]);
    await lines.hover({ position: { x: 20, y: 22 + 1.5 * 20 } });
    const largest = [3, 2, 1, 0].map((key) => `${weight(0, 1, 2, 1, key)}  ${key} ${"wxyz"[key]}`);
    assert.deepEqual((await tip.textContent()).split("\n"), ["query 1 b", ...largest]);
    // Another text, whose tokens are not given.
    await page.locator("select").selectOption("1");
    assert.equal(await title.textContent(), "layer 1, head 2");
    assert.deepEqual(await overCell(2, 0), ["query 2", "key 0", String(weight(1, 1, 2, 2, 0))]);
    await page.mouse.move(1270, 790);
    assert.equal(await tip.isVisible(), false);
    assert.deepEqual(complaints, []);
});

// VS Code sets a cell's output as HTML, and evaluates copies of its scripts. This is the policy of its notebooks.
test("the heads are drawn in a cell of VS Code, whose policy allows no frame, worker or network", async (t) => {
    const policy = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src https: data:; font-src https:; child-src https: data:";
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, offline: true });
    t.after(() => context.close());
    const page = await context.newPage(), complaints = [];
    page.on("console", (message) => complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(String(error)));
    await page.setContent(`<!doctype html><meta http-equiv="Content-Security-Policy" content="${policy}"><body class="vscode-dark"><div id="cell"></div>`);
    await page.evaluate((html) => {
        const cell = document.getElementById("cell");
        cell.innerHTML = html;
        for (const script of [...cell.getElementsByTagName("script")]) {
            const copy = document.createElement("script");
            if (script.type) copy.type = script.type;
            copy.text = script.innerText;
            cell.append(copy);
            copy.remove();
        }
    }, written().replace("<!doctype html>", ""));
    await page.locator("h4").filter({ hasText: "layer 0, head 0" }).waitFor();
    assert.equal(await page.locator("figure.dark").count(), 1);
    const inks = await page.locator("canvas").first().evaluate((canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(data.buffer)).size;
    });
    assert.ok(inks > 10, `${inks} colours`);
    await page.locator("canvas").first().hover({ position: { x: 80, y: 40 } });
    assert.match(await page.locator(".tip").textContent(), /layer 0, head \d/);
    assert.deepEqual(complaints, []);
});
