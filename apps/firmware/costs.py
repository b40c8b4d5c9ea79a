#!/usr/bin/env python3
"""Writes COSTS.md, the kernels' costs on each emulated core. With `--check` it fails if the file would change.

It needs QEMU and the targets, as .ci/run does. The column CMSIS-DSP also needs arm-none-eabi-gcc with newlib, and the variable
CMSIS_DSP with the directory of CMSIS-DSP's sources, which `pip download --no-deps --no-binary cmsisdsp cmsisdsp` fetches.
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


def output(command, **kwargs):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=HERE, **kwargs).stdout


def measured(text):
    """The lines of an image: {(operation, shape): {by: (instructions, stack, scratch, memory)}}, the fastest of several."""
    costs = {}
    for line in text.splitlines():
        name, shape, by, *numbers = line.split(";")
        numbers = tuple(int(n) if n else None for n in [*numbers, ""][:4])
        ways = costs.setdefault((name, shape), {})
        ways[by] = min(ways.get(by, numbers), numbers)
    return costs


def cmsis(board, flags, sources, directory):
    """The lines of the composition of CMSIS-DSP, as `measured` gives them."""
    board, image = facts(board), directory / "composition.elf"
    region = lambda name: "ORIGIN = {}, LENGTH = {}".format(*board[name].split())
    memory = f"MEMORY {{ FLASH : {region('flash')} RAM : {region('ram')} }}\nINCLUDE {HERE}/cmsis/link.x\n"
    (directory / "memory.x").write_text(memory)
    functions = ["MatrixFunctions/arm_mat_mult_f32", "MatrixFunctions/arm_mat_trans_f32", "BasicMathFunctions/arm_dot_prod_f32"]
    output([
        "arm-none-eabi-gcc", "-O3", "-mthumb", "-mfloat-abi=hard", *flags.split(), "-ffunction-sections",
        # The first definition leaves out the headers of a vendor's device, and the second one chooses the library's unrolled
        # loops.
        "-D__GNUC_PYTHON__", "-DARM_MATH_LOOPUNROLL", f"-DCLOCK={board['clock']}",
        f"-I{sources}/Include", f"-I{sources}/PrivateInclude", "cmsis/composition.c",
        *(f"{sources}/Source/{f}.c" for f in functions),
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
    titles = {"kernel": "kernels", "int8": "int8", "naive": "naive loops", "cmsis": "CMSIS-DSP"}
    by_way = [by for by in titles if by in by_way] + [by for by in by_way if by not in titles]
    own = [by for by in by_way if by not in ("naive", "cmsis")]
    instructions, memory = [], []
    for (name, shape), found in costs.items():
        (reference, *_) = found.get("kernel", (None,))
        case = [name, shape.replace("x", " × ")]
        row = []
        for by in by_way:
            n = found[by][0] if by in found else None
            factor = f" ({n / reference:.2f} ×)" if n and reference and by != "kernel" else ""
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


# Cores and types of weights with which `story` runs. With `f32` it does not fit the M55's flash.
MODELS = [("m4f", "f32"), ("m4f", "bf16"), ("m55-cpu", "bf16"), ("m4f", "int8"), ("m55-cpu", "int8"), ("rv32imac", "int8")]


# The same for `digits`.
CLASSIFIERS = [("m4f", "f32"), ("m4f", "int8")]


def models(model, name, image, context, runs):
    """A row for each core and type of weights, from the last line of the image that runs the model."""
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        for alias, stored in runs:
            folder = f"{directory}/{name}-{stored}"
            program = ["cargo", "run", "--quiet", "-p", "regard-desktop", "--bin", "regard", "--"]
            output([*program, "embed", model, "--to", folder, "--weights", stored, "--context", str(context)])
            run = ["cargo", alias, "--quiet", "--bin", image]
            *_, cost = output(run, env={**os.environ, "REGARD_EMBED": folder}).splitlines()
            *_, instructions, stack, ram, flash = (int(n) for n in re.findall(r"\d+", cost))
            # The painted memory ends here.
            stack = "≥ 2,560" if stack == 2560 else f"{stack:,}"
            core = NAMES.get(alias) or facts(CORES[alias.removesuffix("-cpu")][0])["core"]
            rows.append([core, stored, f"{instructions:,}", stack, f"{ram:,}", f"{flash:,}"])
    return markdown(["core", "weights", "instructions", "stack", "RAM", "flash"], rows, 2)


INTRODUCTION = """\
# Costs

Written by [costs.py](costs.py): each image measures itself under QEMU. Instructions are not cycles: on an M4F, a multiply-add takes
3 cycles, a load 1 or 2. [The firmware's page](README.md#parts) says which cycles to expect on named parts.

## A model

A token of `story` (4 layers of width 64, 207,552 weights, 96 tokens of context) from flash, by the crate that `regard embed` writes:
the last token of the text, which sees the most keys. The memory is in bytes: *RAM* is the state, *flash* the weights.

"""

CLASSIFIER = """
An image of `digits` (2 layers of width 32, 18,218 weights, 17 tokens) by the same, from its samples to the logits of the classes.

"""

CALLS = """
## An operation

[Flash](#flash) has the code's size. For each core, the first table counts the instructions of a call; those of *int8*, the naive
loops and CMSIS-DSP are followed by their ratio to the kernels'. The second table is in bytes: *scratch* is the scratch memory that
the caller provides, *stack* the peak of the stack, and *memory* all memory that the caller provides (inputs, output and scratch).
Operations that do not fit in a board's memory are left out.

- *attention* n × d: n queries, n keys, n values of d columns each. *causal*: query i sees keys 0 to i.
- *matmul* n × d: the product of an n × n and an n × d matrix. *softmax*, *exp*: a row of n numbers. *decode step* n × d: one query
  and n keys.
- *int8*: the operation on 8-bit integers, [`regard_kernels::int8`](../../crates/regard-kernels/src/int8/mod.rs).
- Images for Cortex-M33 and M55 are compiled with `-C target-cpu`: then *int8* takes SMLAD, and the kernels take Helium on the M55.
- *naive loops*: [`regard_kernels::naive`](../../crates/regard-kernels/src/naive.rs), built for speed (`opt-level = 3`), as
  CMSIS-DSP is. The kernels are built for size (`opt-level = "s"`).
- *CMSIS-DSP*: [composition.c](cmsis/composition.c), `arm-none-eabi-gcc -O3`. Scores are computed by `arm_dot_prod_f32` or by
  `arm_mat_mult_f32`, whichever is faster, the softmax with newlib's `expf`, the output by `arm_mat_mult_f32`.
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
    text = INTRODUCTION + models("story", "story", "story", 96, MODELS)
    text += CLASSIFIER + models("digits", "digits", "classify", 96, CLASSIFIERS)

    text += CALLS
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
