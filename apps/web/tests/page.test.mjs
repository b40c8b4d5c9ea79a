// The page in a real browser: `npm test`, after `node build.mjs --quick` or `node build.mjs`.
//
// The tests reach every control by its role and name, through the elements that mirror the accessibility tree.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

import { serve } from "../serve.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../../..");
const program = process.env.REGARD ?? join(process.env.CARGO_TARGET_DIR ?? join(root, "target"), "debug/regard");
const pictures = process.env.PICTURES;
let server, browser, origin;

before(async () => {
    server = await serve();
    origin = `http://127.0.0.1:${server.address().port}/`;
    browser = await chromium.launch({
        executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
        args: ["--no-sandbox", "--enable-unsafe-swiftshader", "--use-angle=swiftshader"],
    });
    if (pictures) mkdirSync(pictures, { recursive: true });
});

after(async () => {
    await browser?.close();
    server?.close();
});

/** Opens the page in a fresh browser profile. Every message on the console is an error of the test. */
async function open(t, address = "", options = {}) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, serviceWorkers: "block", ...options });
    t.after(() => context.close());
    const page = await context.newPage();
    page.setDefaultTimeout(20_000);
    page.complaints = [];
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && page.complaints.push(message.text()));
    page.on("pageerror", (error) => page.complaints.push(String(error)));
    await page.goto(origin + address);
    await page.waitForFunction(() => document.body.classList.contains("drawn"));
    return page;
}

/** Chromium's remarks on WebGL in software, which are not the page's. */
const own = (complaints) => complaints.filter((text) => !/GL Driver Message|GPU stall|swiftshader/i.test(text));

async function picture(page, name) {
    if (pictures) await page.screenshot({ path: join(pictures, `${name}.png`) });
}

/** Uses a control as assistive technology does. */
const press = (locator) => locator.first().dispatchEvent("click");

/** Every text of the window. */
const texts = (page) => page.locator("#mirror [data-role=text]").allTextContents();

function regard(...args) {
    return execFileSync(program, args, { encoding: "utf8" });
}

test("the page loads without a complaint, and shows a heatmap", async (t) => {
    const page = await open(t);
    await page.getByRole("img").first().waitFor({ state: "attached" });
    await page.waitForTimeout(300);
    await picture(page, "wide");
    assert.deepEqual(own(page.complaints), []);
});
