// The page's worker: the same program, which computes here while the page is drawn. See `hire` in system.js.

let program;
/** Messages are handled in turn: the first one brings the program. */
let last = Promise.resolve();

async function handle({ script, module, put, job }) {
    if (script) {
        program = await import(script);
        await program.default({ module_or_path: module });
    } else if (put) {
        program.put(...put);
    } else {
        try {
            const numbers = program.work(job);
            self.postMessage({ numbers }, numbers.map((list) => list.buffer));
        } catch (error) {
            self.postMessage({ error: String(error) });
        }
    }
}

self.onmessage = ({ data }) => {
    last = last.then(() => handle(data));
};
