// The page's worker: the same program, which answers questions here while the page is drawn. See `hire` in system.js.

let program;
/** Messages are handled in turn: the first one brings the program. */
let last = Promise.resolve();
/** The numbers of the questions that are being answered, in turn. */
const begun = [];
let isAtWork = false;

async function handle({ script, module, put, refused, forgotten, number, question, lists, cancelled }) {
    if (script) {
        program = await import(script);
        await program.default({ module_or_path: module });
    } else if (put) {
        program.put(...put, true);
    } else if (refused) {
        program.refuse(...refused);
    } else if (forgotten) {
        program.forget(...forgotten);
    } else if (cancelled) {
        program.cancel(cancelled);
        begun.splice(0, begun.length, ...begun.filter((other) => other !== cancelled));
    } else {
        try {
            program.begin(number, question, lists);
            begun.push(number);
            self.postMessage({ number, part: 0 }); // the page answers if nobody waits any more
            if (!isAtWork) work();
        } catch (error) {
            self.postMessage({ number, error: String(error) });
        }
    }
}

const channel = new MessageChannel();

/** Lets the messages that have come be handled. A timer would wait for 4 ms more. */
const breath = () => new Promise((done) => {
    channel.port1.onmessage = done;
    channel.port2.postMessage(null);
});

/** Does a step of each question in turn until all are answered. */
async function work() {
    isAtWork = true;
    for (await breath(); begun.length; await breath()) {
        const number = begun.shift();
        try {
            const [answer, lists, isLast] = program.step(number) ?? [];
            if (program.waits()) await new Promise((done) => setTimeout(done, 20));
            if (!isLast) begun.push(number);
            if (answer) {
                const buffers = [answer, ...lists].map((list) => list.buffer);
                self.postMessage({ number, answer, lists, isLast }, buffers);
            }
        } catch (error) {
            self.postMessage({ number, error: String(error) });
        }
    }
    isAtWork = false;
}

self.onmessage = ({ data }) => {
    last = last.then(() => handle(data));
};
