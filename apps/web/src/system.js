// The browser's side of the window: storage, files, the page's address, and the accessibility tree as elements.
// `system.rs` declares what the program calls.

/** The page sets these: what it knows of the program's exports. */
export const page = { put: null, refuse: null, forget: null, open: null, act: null, work: null, take: null };

/** The most bytes of files. The worker holds them in its memory of 4 GiB, and a model's weights beside them. */
const MOST_BYTES = 1.5 * 2 ** 30;

/** The numbers that the program copies at a time: 1 MB. */
const SLICE = 2 ** 18;

/** The milliseconds of copying after which the page draws. */
const TURN = 10;

// --- Work between the frames ---

let last = Promise.resolve();

export function later() {
    last = last.then(() => new Promise((done) => setTimeout(done, 0))).then(() => page.work());
}

// --- The worker ---

let worker;
/** What waits for the worker's answers, by the numbers of the questions. */
const waiting = new Map();
let asked = 0;

/** Starts the worker, which runs the same program as the page: its first message brings that. */
export function hire(address, message) {
    worker = new Worker(address, { type: "module", name: "regard" });
    let last = Promise.resolve();
    worker.onmessage = ({ data }) => {
        last = last.then(() => take(data));
    };
    worker.onerror = (event) => {
        for (const reply of waiting.values()) reply(undefined, `the worker failed: ${event.message}`, undefined, true);
        waiting.clear();
    };
    worker.postMessage(message);
}

/** Hands what the worker says to the program. The numbers of a large answer are copied in turns, between which the page draws. */
async function take({ number, part, error, answer, lists, isLast }) {
    if (lists && waiting.has(number)) {
        let begun = performance.now();
        for (const list of lists) {
            for (let from = 0; from < list.length; from += SLICE) {
                page.take(list.subarray(from, from + SLICE), from === 0 ? list.length : 0);
                if (performance.now() - begun < TURN) continue;
                await new Promise((done) => setTimeout(done, 0));
                begun = performance.now();
            }
        }
    }
    const isWanted = waiting.get(number)?.(part, error, answer, isLast ?? false);
    if (isLast || error !== undefined) {
        waiting.delete(number);
    } else if (isWanted === false) {
        waiting.delete(number);
        worker.postMessage({ cancelled: number });
    }
}

export function ask(question, lists, reply) {
    const bytes = question.slice(); // the program's memory stays here
    waiting.set(++asked, reply);
    const buffers = lists.map((list) => list.buffer);
    worker.postMessage({ number: asked, question: bytes, lists }, [bytes.buffer, ...buffers]);
}

/** In the worker: tells the page how far it is. */
export function progress(number, part) {
    self.postMessage({ number, part });
}

/** In the worker: fetches a file that lies beside the page. */
export async function fetched(name, told) {
    try {
        const response = await fetch(new URL(name, import.meta.url));
        if (!response.ok) throw new Error(`the server answers ${response.status}`);
        const parts = [];
        let bytes = 0;
        const reader = response.body.getReader();
        for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
            parts.push(value);
            told((bytes += value.length));
        }
        told(bytes, new Uint8Array(await new Blob(parts).arrayBuffer()));
    } catch (error) {
        told(0, undefined, `${name} could not be fetched: ${error.message}`);
    }
}

export function kept(name) {
    try {
        return localStorage.getItem(name) ?? undefined;
    } catch {
        return undefined; // the browser keeps nothing for this page
    }
}

export function keep(name, text) {
    try {
        localStorage.setItem(name, text);
        return true;
    } catch {
        return false;
    }
}

export function download(name, bytes) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([bytes]));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Opens the book in a new tab. False if the browser blocks it. */
export function open_book() {
    return window.open(new URL("book/", document.baseURI), "_blank") !== null;
}

// --- The page's address ---

/** Gives the page's address this end, and returns the address. */
export function address(end) {
    try {
        history.replaceState(null, "", location.pathname + end);
    } catch {
        // A page in a notebook has no address of its own, and browsers limit the changes of a minute.
    }
    return location.href;
}

// --- Files ---

/** The files that the worker holds, the oldest first: the bytes of each, and the number of the drop that brought it. */
const held = new Map();
let drops = 0;

/** Makes room for files, each with its path. They replace those of the same path, and the drops before them go, the oldest first. */
function hold(files) {
    for (const [path] of files) held.delete(path);
    let bytes = files.concat(Array.from(held)).reduce((sum, [, { size }]) => sum + size, 0);
    while (bytes > MOST_BYTES) {
        const [{ drop }] = held.values();
        for (const [path, file] of Array.from(held).filter(([, file]) => file.drop === drop)) {
            held.delete(path);
            bytes -= file.size;
            const forgotten = [path, MOST_BYTES];
            worker.postMessage({ forgotten });
            page.forget(...forgotten);
        }
    }
    drops += 1;
    for (const [path, { size }] of files) held.set(path, { size, drop: drops });
}

/** Hands files, each with its path, to the program. Returns the path to open: a folder, or the file. */
export async function read(files) {
    // Several files without a folder are one model: they stand in a folder of their own.
    if (files.length > 1 && files.every(([path]) => !path.includes("/"))) {
        const folder = drops ? `files-${drops + 1}` : "files";
        files = files.map(([path, file]) => [`${folder}/${path}`, file]);
    }
    const bytes = files.reduce((sum, [, file]) => sum + file.size, 0);
    const isTooMuch = bytes > MOST_BYTES;
    if (!isTooMuch) hold(files);
    for (const [path, file] of files) {
        if (isTooMuch) {
            const refused = [path, bytes, MOST_BYTES];
            worker.postMessage({ refused });
            page.refuse(...refused);
        } else {
            const content = new Uint8Array(await file.arrayBuffer());
            page.put(path, content, false);
            worker.postMessage({ put: [path, content] }, [content.buffer]);
        }
    }
    const first = files[0]?.[0];
    return first?.includes("/") ? first.slice(0, first.indexOf("/")) : first;
}

export function choose(endings, done) {
    const input = document.createElement("input");
    input.type = "file";
    input.multiple = true;
    input.accept = endings;
    input.onchange = async () => done(await read(Array.from(input.files, (file) => [file.name, file])));
    input.oncancel = () => done(undefined);
    input.click();
}

/** The files under what was dropped, each with its path. */
export async function dropped(transfer) {
    const entries = Array.from(transfer.items, (item) => item.webkitGetAsEntry?.()).filter(Boolean);
    if (!entries.length) return Array.from(transfer.files, (file) => [file.name, file]);
    const files = [];
    const walk = async (entry, folder) => {
        const path = folder + entry.name;
        if (entry.isFile) {
            files.push([path, await new Promise((done, fail) => entry.file(done, fail))]);
            return;
        }
        const reader = entry.createReader();
        for (;;) {
            const inner = await new Promise((done, fail) => reader.readEntries(done, fail));
            if (!inner.length) return;
            for (const each of inner) await walk(each, `${path}/`);
        }
    };
    for (const entry of entries) await walk(entry, "");
    return files;
}

export function is_still() {
    return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

export function drawn() {
    performance.mark("drawn");
    document.body.classList.add("drawn");
}

// --- The accessibility tree ---

const elements = new Map();

/** The element for a role: one of HTML's own where it brings behaviour with it. */
function create(role) {
    const tags = { button: "button", slider: "input", spinbutton: "input", textbox: "input", textarea: "textarea", text: "span" };
    const element = document.createElement(tags[role] ?? "div");
    if (role === "slider") element.type = "range";
    if (role === "spinbutton") element.type = "number";
    if (!(role in tags) && role !== "group") element.setAttribute("role", role);
    if (role === "img") element.setAttribute("role", "img");
    element.tabIndex = -1;
    return element;
}

/** Sets or removes an attribute. */
function set(element, name, value) {
    if (value === undefined || value === null) element.removeAttribute(name);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

function update(node) {
    let element = elements.get(node.id);
    if (element?.dataset.role !== node.role) {
        const before = element;
        element = create(node.role);
        element.id = `n${node.id}`;
        element.dataset.role = node.role;
        before?.replaceWith(element);
        elements.set(node.id, element);
    }
    set(element, "aria-label", node.role === "text" ? undefined : node.name);
    set(element, "aria-description", node.description);
    set(element, "aria-disabled", node.disabled ? "true" : undefined);
    set(element, "aria-live", node.live);
    set(element, "aria-expanded", node.expanded);
    const state = { tab: "aria-selected", option: "aria-selected", button: "aria-pressed" };
    set(element, state[node.role] ?? "aria-checked", node.on);
    if (node.numbers) {
        const [least, largest, now, step] = node.numbers;
        if (node.role === "slider" || node.role === "spinbutton") {
            set(element, "min", least);
            set(element, "max", largest);
            set(element, "step", "any");
            if (document.activeElement !== element) element.value = now;
            element.dataset.step = step ?? "";
        } else {
            set(element, "aria-valuemin", least);
            set(element, "aria-valuemax", largest);
        }
        set(element, "aria-valuenow", now);
        set(element, "aria-valuetext", node.value);
    } else if (node.role === "textbox" || node.role === "textarea") {
        if (element.value !== (node.value ?? "")) element.value = node.value ?? "";
    } else if (node.role === "text") {
        if (element.textContent !== (node.value ?? node.name ?? "")) element.textContent = node.value ?? node.name ?? "";
    } else if (node.value !== undefined) {
        set(element, "aria-valuetext", node.value);
        element.dataset.value = node.value;
    }
    if (node.place) {
        const [left, top, width, height] = node.place;
        element.style.cssText = `left:${left}px;top:${top}px;width:${width}px;height:${height}px`;
    }
    return element;
}

export function mirror(text) {
    const { root, focus, changed, gone } = JSON.parse(text);
    const top = document.getElementById("mirror");
    for (const node of changed) update(node);
    for (const { id, role, children } of changed) {
        const element = elements.get(id);
        if (["text", "textbox", "textarea", "slider", "spinbutton"].includes(role)) continue;
        const wanted = (children ?? []).map((child) => elements.get(child)).filter(Boolean);
        const same = wanted.length === element.children.length && wanted.every((child, i) => child === element.children[i]);
        if (!same) element.replaceChildren(...wanted);
    }
    for (const id of gone) {
        elements.get(id)?.remove();
        elements.delete(id);
    }
    const first = elements.get(root);
    if (first && first.parentNode !== top) top.replaceChildren(first);
    const canvas = document.getElementById("window");
    const focused = elements.get(focus);
    set(canvas, "aria-activedescendant", focus === root ? undefined : focused?.id);
    for (const input of document.querySelectorAll("#stage > input")) {
        set(input, "aria-label", focused?.getAttribute("aria-label") ?? "Keyboard input");
    }
}

/** Sends what assistive technology does with an element to the program. */
export function listen(top) {
    const id = (event) => event.target.closest("[id^=n]")?.id.slice(1);
    top.addEventListener("click", (event) => page.act(id(event), "click", undefined));
    top.addEventListener("input", (event) => {
        const kind = ["range", "number"].includes(event.target.type) ? "number" : "text";
        page.act(id(event), kind, event.target.value);
    });
    top.addEventListener("focusin", (event) => {
        // A text field keeps the keyboard until it is left. Everything else hands it to the window, which has focus of its own.
        page.act(id(event), "focus", undefined);
        if (!["INPUT", "TEXTAREA"].includes(event.target.tagName)) document.getElementById("window").focus();
    });
}
