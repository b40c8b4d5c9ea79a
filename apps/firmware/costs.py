#!/usr/bin/env python3
"""Writes COSTS.md, the kernels' costs on each emulated core. With `--check` it fails if the file would change.

It needs QEMU and the targets, as .ci/run does, and transformers, which writes a keyword spotter with random weights. The columns
CMSIS-DSP and CMSIS-NN also need arm-none-eabi-gcc with newlib, and directories of sources in the variables CMSIS_DSP (`pip download
--no-deps --no-binary cmsisdsp cmsisdsp` fetches them) and CMSIS_NN (github.com/ARM-software/CMSIS-NN).
"""

import os
import re
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
BOARDS = HERE / "boards"

# Alias: board, target, and the C compiler's flags for CMSIS-DSP. The board's file names the core.
CORES = {
    "m0": ("microbit", "thumbv6m-none-eabi", None),
    "m4f": ("mps2-an386", "thumbv7em-none-eabihf", "-mcpu=cortex-m4 -mfpu=fpv4-sp-d16"),
    "m7": ("mps2-an500", "thumbv7em-none-eabihf", "-mcpu=cortex-m7 -mfpu=fpv5-sp-d16"),
    "m33": ("mps2-an505", "thumbv8m.main-none-eabihf", "-mcpu=cortex-m33 -mfpu=fpv5-sp-d16"),
    "m55": ("mps3-an547", "thumbv8m.main-none-eabihf", "-mcpu=cortex-m55"),
    "rv32imac": ("virt", "riscv32imac-unknown-none-elf", None),
    "rv32imafc": ("virt", "riscv32imafc-unknown-none-elf", None),
}
# Aliases that name the core by `-C target-cpu`. int8 then uses SMLAD, and on the M55 `f32` uses Helium.
NAMED = {"m33": "m33-cpu", "m55": "m55-cpu"}
NAMES = {"rv32imac": "RV32IMAC", "rv32imafc": "RV32IMAFC"}

# The operations of the image `size`.
OPERATIONS = [
    "attention", "causal attention", "any attention", "attention at 3 shapes", "decode step",
    "int8 attention", "any int8 attention", "int8 decode step", "matmul", "softmax", "exp",
]


def facts(board):
    lines = (BOARDS / f"{board}.board").read_text().splitlines()
    return {key.strip(): value.strip() for key, value in (line.split("=", 1) for line in lines)}


def output(command, cwd=HERE, **kwargs):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=cwd, **kwargs).stdout


def measured(text):
    """The lines of an image: {(operation, shape): {by: (instructions, stack, scratch, memory)}}, the fastest of several."""
    costs = {}
    for line in text.splitlines():
        name, shape, by, *numbers = line.split(";")
        numbers = tuple(int(n) if n else None for n in [*numbers, ""][:4])
        ways = costs.setdefault((name, shape), {})
        ways[by] = min(ways.get(by, numbers), numbers)
    return costs


# The functions of CMSIS-NN, on cores without Helium.
CMSIS_NN = [
    "FullyConnectedFunctions/arm_fully_connected_s8", "NNSupportFunctions/arm_nn_vec_mat_mult_t_s8",
    "ConvolutionFunctions/arm_convolve_1x1_s8_fast", "NNSupportFunctions/arm_nn_mat_mult_nt_t_s8",
    "SoftmaxFunctions/arm_softmax_s8", "SoftmaxFunctions/arm_nn_softmax_common_s8",
]


def cmsis(board, flags, sources, directory):
    """The lines of the composition of CMSIS-DSP and CMSIS-NN, as `measured` gives them."""
    board, image = facts(board), directory / "composition.elf"
    region = lambda name: "ORIGIN = {}, LENGTH = {}".format(*board[name].split())
    memory = f"MEMORY {{ FLASH : {region('flash')} RAM : {region('ram')} }}\nINCLUDE {HERE}/cmsis/link.x\n"
    (directory / "memory.x").write_text(memory)
    functions = ["MatrixFunctions/arm_mat_mult_f32", "MatrixFunctions/arm_mat_trans_f32", "BasicMathFunctions/arm_dot_prod_f32"]
    networks = os.environ.get("CMSIS_NN")
    networks = Path(networks).resolve() if networks and "cortex-m55" not in flags else None
    output([
        "arm-none-eabi-gcc", "-O3", "-mthumb", "-mfloat-abi=hard", *flags.split(), "-ffunction-sections",
        # The first definition leaves out the headers of a vendor's device, and the second one chooses the library's unrolled
        # loops.
        "-D__GNUC_PYTHON__", "-DARM_MATH_LOOPUNROLL", f"-DCLOCK={board['clock']}",
        f"-I{sources}/Include", f"-I{sources}/PrivateInclude", "cmsis/composition.c",
        *(f"{sources}/Source/{f}.c" for f in functions),
        *(["-DCMSIS_NN", f"-I{networks}/Include"] if networks else []),
        *(f"{networks}/Source/{f}.c" for f in CMSIS_NN if networks),
        "-nostartfiles", "-Wl,--gc-sections", f"-T{directory}/memory.x", "-lm", "-o", str(image),
    ])
    return measured(output([
        *board["qemu"].split(), "-nographic", "-icount", "shift=0",
        "-semihosting-config", "enable=on,target=native", "-kernel", str(image),
    ], stderr=subprocess.STDOUT))


def sections(image):
    """(bytes in flash, bytes of RAM) of an image's sections."""
    elf = Path(image).read_bytes()
    (start,) = struct.unpack_from("<I", elf, 0x20)
    size, count = struct.unpack_from("<HH", elf, 0x2E)
    flash = ram = 0
    for i in range(count):
        _, kind, flags, _, _, length = struct.unpack_from("<6I", elf, start + i * size)
        if flags & 2:  # occupies memory
            flash += length if kind == 1 else 0
            ram += length if flags & 1 else 0
    return flash, ram


def sizes(target, board):
    """{operation: (bytes in flash, bytes of RAM)} that the call adds to the same image without it."""
    def built(operation, call):
        environment = {**os.environ, "REGARD_BOARD": board, "REGARD_OPERATION": operation, "REGARD_CALL": call}
        build = ["cargo", "build", "--quiet", "--profile", "firmware", "--bin", "size", "--target", target]
        output(build, env=environment)
        root = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "../../target"))
        return sections(root / target / "firmware" / "size")
    return {op: tuple(a - b for a, b in zip(built(op, "yes"), built(op, "no"))) for op in OPERATIONS}


def tables(costs):
    """Two tables with a row for each operation: the instructions, with ratios to the kernels', and the kernels' memory."""
    by_way = list(dict.fromkeys(by for ways in costs.values() for by in ways))
    titles = {"kernel": "kernels", "int8": "int8", "naive": "naive loops", "cmsis": "CMSIS-DSP", "cmsis-nn": "CMSIS-NN"}
    by_way = [by for by in titles if by in by_way] + [by for by in by_way if by not in titles]
    own = [by for by in by_way if by not in ("naive", "cmsis", "cmsis-nn")]
    instructions, memory = [], []
    for (name, shape), found in costs.items():
        (reference, *_) = found.get("kernel", (None,))
        case = [name, shape.replace("x", " × ")]
        row = []
        for by in by_way:
            n = found[by][0] if by in found else None
            (of, *_) = found.get("int8", (None,)) if by == "cmsis-nn" else (reference,)
            factor = f" ({n / of:.2f} ×)" if n and of and by != "kernel" else ""
            row.append(f"{n:,}{factor}" if n else "")
        instructions.append(case + row)
        row = []
        for by in own:
            _, stack, scratch, total = found.get(by, (None,) * 4)
            cell = lambda n: f"{n:,}" if n is not None else ""
            # The painting function's own frames hide a smaller stack.
            row += [cell(scratch), "≤ 256" if stack == 256 else cell(stack), cell(total)]
        memory.append(case + row)
    head = ["operation", "shape", *(titles.get(by, by) for by in by_way)]
    bytes_of = [f"{titles.get(by, by)}: {what}" for by in own for what in ("scratch", "stack", "memory")]
    return markdown(head, instructions, 2) + "\nBytes:\n\n" + markdown(head[:2] + bytes_of, memory, 2)


def markdown(head, rows, left):
    lines = [head, ["---"] * left + ["---:"] * (len(head) - left), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


COMMANDS = "crates/regard-models/tests/data/commands"
# "now do not switch on the fan in the kitchen but switch off the heater"
COMMAND = "2 14 24 23 18 19 21 5 22 21 7 32 18 20 21 6 3"

# What is read, the arguments of `regard embed`, the inputs that int8 is calibrated on, the image, and the cores with their types of
# weights.
MODELS = [
    ("""\
A token of `story` (4 layers of width 64, 207,552 weights, 96 tokens of context): the last token of the text, which sees the most
keys. With `f32` it does not fit the M55's flash.
""", ["story", "--context", "96"], None, "story",
     [("m4f", "f32"), ("m4f", "bf16"), ("m55-cpu", "bf16"), ("m4f", "int8"), ("m55-cpu", "int8"), ("rv32imac", "int8")]),
    ("""\
A token of `english`, the bundled model that reads any English (3.4 million weights, 64 tokens of context): the last token.
""", ["english", "--context", "64"], None, "story", [("m7", "int8")]),
    ("""\
An image of `digits` (2 layers of width 32, 18,218 weights, 17 tokens), from its samples to the logits of the classes.
""", ["digits"], None, "classify", [("m4f", "f32"), ("m4f", "int8"), ("m55-cpu", "f32"), ("rv32imac", "int8"), ("m0", "int8")]),
    ("""\
A command of 17 tokens, read by a BERT (2 layers of width 32), to the logits of the classes.
""", [COMMANDS, "--context", "17"], f"{COMMANDS}/texts.txt", "text",
     [("m4f", "f32"), ("m4f", "int8"), ("m55-cpu", "f32"), ("m0", "int8")]),
    ("""\
A window of 98 frames of 40 coefficients, read by KWT-1 (12 layers of width 64, 607 thousand weights, here random).
""", ["{folder}/kwt"], "{folder}/kwt/windows.safetensors", "window", [("m4f", "f32"), ("m4f", "int8")]),
]


def models():
    """The tables of all models: a row for each core and type of weights, from the last line of the image that runs the model."""
    text = ""
    with tempfile.TemporaryDirectory() as folder:
        keyword_spotter(f"{folder}/kwt")
        for title, arguments, inputs, image, runs in MODELS:
            model, *arguments = (argument.format(folder=folder) for argument in arguments)
            calibrate = ["--calibrate", inputs.format(folder=folder)] if inputs else []
            rows = []
            for alias, stored in runs:
                to = f"{folder}/{Path(model).name}-{stored}"
                embed = ["cargo", "run", "--quiet", "-p", "regard-desktop", "--bin", "regard", "--", "embed", model, "--to", to]
                embed += ["--weights", stored, *arguments, *(calibrate if stored == "int8" else [])]
                output(embed, cwd=HERE.parent.parent)
                run = ["cargo", alias, "--quiet", "--bin", image]
                *_, cost = output(run, env={**os.environ, "REGARD_EMBED": to, "REGARD_TEXTS": COMMAND}).splitlines()
                instructions, stack, ram, flash = (
                    int(re.search(rf"(\d+) {unit}", cost)[1]) for unit in ("instr", "bytes of stack", "of RAM", "of flash")
                )
                core = NAMES.get(alias) or facts(CORES[alias.removesuffix("-cpu")][0])["core"]
                rows.append([core, stored, *(f"{n:,}" for n in (instructions, stack, ram, flash))])
                print(image, *rows[-1], file=sys.stderr)
            text += f"\n{title}\n" + markdown(["core", "weights", "instructions", "stack", "RAM", "flash"], rows, 2)
    return text


def keyword_spotter(folder):
    """Writes a model of KWT-1's shape with random weights, and windows for its calibration."""
    import torch
    from safetensors.torch import save_file
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(1)
    ViTForImageClassification(ViTConfig(
        image_size=(98, 40), patch_size=(1, 40), num_channels=1, hidden_size=64, intermediate_size=256, num_hidden_layers=12,
        num_attention_heads=1, num_labels=12,
    )).save_pretrained(folder)
    save_file({"pixel_values": torch.rand(8, 1, 98, 40) * 2 - 1}, f"{folder}/windows.safetensors")


INTRODUCTION = """\
# Costs

Written by [costs.py](costs.py): each image measures itself under QEMU. Instructions are not cycles: on an M4F, a multiply-add takes
3 cycles, a load 1 or 2. [The firmware's page](README.md#parts) says which cycles to expect on named parts.

## A model

From flash, by the crate that `regard embed` writes. *Stack*, *RAM* (the state) and *flash* (the weights) are in bytes.
"""

CALLS = """
## An operation

[Flash](#flash) has the code's size. For each core, the first table counts the instructions of a call; those of *int8*, the naive
loops and CMSIS-DSP are followed by their ratio to the kernels', those of CMSIS-NN by their ratio to *int8*. The second table is in
bytes: *scratch* is the scratch memory that the caller provides, *stack* the peak of the stack, and *memory* all memory that the caller
provides (inputs, output and scratch). Operations that do not fit in a board's memory are left out.

- *attention* n × d: n queries, n keys, n values of d columns each. *causal*: query i sees keys 0 to i.
- *matmul* n × d: the product of an n × n and an n × d matrix. *softmax*, *exp*: a row of n numbers. *decode step* n × d: one query
  and n keys. *linear to* m, n × d: n rows of d inputs to m outputs of 8 bits.
- *int8*: the operation on 8-bit integers, [`regard_kernels::int8`](../../crates/regard-kernels/src/int8/mod.rs).
- Images for Cortex-M33 and M55 are compiled with `-C target-cpu`: then *int8* takes SMLAD, and the kernels take Helium on the M55.
- *naive loops*: [`regard_kernels::naive`](../../crates/regard-kernels/src/naive.rs), built for speed (`opt-level = 3`), as
  CMSIS-DSP is. The kernels are built for size (`opt-level = "s"`).
- *CMSIS-DSP*: [composition.c](cmsis/composition.c), `arm-none-eabi-gcc -O3`. Scores are computed by `arm_dot_prod_f32` or by
  `arm_mat_mult_f32`, whichever is faster, the softmax with newlib's `expf`, the output by `arm_mat_mult_f32`.
- *CMSIS-NN*: likewise, on 8-bit integers: products by `arm_fully_connected_s8` or by `arm_convolve_1x1_s8_fast`, whichever is faster,
  and `arm_softmax_s8`. These are the sources of 2022 to 2024 on GitHub. Its loops for Helium are not measured.
"""


def of_core(alias, sources):
    """The measurements of an image and of CMSIS-DSP on a core, as `measured` returns them."""
    board, _, flags = CORES[alias]
    image = ["cargo", NAMED.get(alias, alias), "--quiet", "--bin", "costs"]
    costs = measured(output(image))
    for key, ways in measured(output([*image, "--config", "profile.firmware.opt-level=3"])).items():
        costs[key].update({by: cost for by, cost in ways.items() if by == "naive"})
    if flags and sources:
        with tempfile.TemporaryDirectory() as directory:
            for key, ways in cmsis(board, flags, Path(sources).resolve(), Path(directory)).items():
                costs.setdefault(key, {}).update(ways)
    print(alias, file=sys.stderr)
    return costs


def of_target(target, sources):
    """({alias: costs}, sizes) of the cores of a target: builds of one target wait for each other."""
    cores = {alias: board for alias, (board, of, _) in CORES.items() if of == target}
    costs = {alias: of_core(alias, sources) for alias in cores}
    found = sizes(target, list(cores.values())[-1])
    print(target, file=sys.stderr)
    return costs, found


def main():
    sources = os.environ.get("CMSIS_DSP")
    targets = list(dict.fromkeys(target for _, target, _ in CORES.values()))
    with ThreadPoolExecutor() as pool:
        found = dict(zip(targets, pool.map(lambda target: of_target(target, sources), targets)))
    columns = {}
    for alias, (board, target, _) in CORES.items():
        columns.setdefault(tables(found[target][0][alias]), []).append(NAMES.get(alias, facts(board)["core"]))

    print("models", file=sys.stderr)
    text = INTRODUCTION + models() + CALLS
    for body, names in columns.items():
        text += f"\n## {', '.join(names)}\n\n{body}"

    of_targets = {target: found[target][1] for target in targets}
    rows = [[op, *(f"{of_targets[t][op][0]:,}" for t in targets)] for op in OPERATIONS]
    text += "\n## Flash\n\nBytes that the call of an operation adds to an image: code, constants, and the functions of `libm` and "
    text += "of soft floating point that it needs. *any attention* is described at run time, the others at compile time. "
    text += "Inputs, output and scratch memory are not counted. "
    ram = max(ram for of in of_targets.values() for _, ram in of.values())
    text += f"Static RAM: {ram or 'none'}.\n\n" + markdown(["operation", *(f"`{t}`" for t in targets)], rows, 1)

    path = HERE / "COSTS.md"
    if "--check" in sys.argv and path.read_text() != text:
        sys.exit("COSTS.md differs from what the images measure: run apps/firmware/costs.py")
    path.write_text(text)


main()
