"""`regard.trace`, `regard.show`, and the package of the program."""

import base64
import doctest
import gzip
import json
import os
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
import reference
import regard

TEXT = "Mia gave Tom the ball."
HERE = Path(__file__).parent
GOLDEN = Path(os.environ.get("GOLDEN", HERE.parents[1] / "tests" / "golden" / "models"))


@pytest.fixture
def program():
    """The package of the program, which is a wheel of its own."""
    from importlib import metadata

    try:
        return metadata.files("regard-program")
    except metadata.PackageNotFoundError:
        pytest.skip("NOT CHECKED: the package regard-program is not installed")


def test_the_program_is_the_one_of_its_package(program):
    scripts = [Path(f.locate()).resolve() for f in program if f.name in ("regard", "regard.exe")]
    assert [regard.program()] == scripts


def test_the_module_is_alone_in_its_wheel():
    """It needs nothing of the system but the C library, so that its wheel fits old systems."""
    from importlib import metadata

    assert {f.parts[0] for f in metadata.files("regard")} <= {"regard", f"regard-{regard.__version__}.dist-info"}


def test_without_the_program_the_window_says_how_to_install_it(monkeypatch):
    from importlib import metadata

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", missing)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileNotFoundError, match="regard-program.*pip install ./apps/desktop"):
        regard.show(np.full((1, 2, 3, 3), 1 / 3, np.float32), window=True)


def test_a_trace_has_the_arrays_of_transformers():
    arrays = regard.trace("story", TEXT)
    n = len(arrays["tokens"])
    assert arrays["input_ids"].shape == (n,) and arrays["input_ids"].dtype == np.int64
    assert arrays["logits"].shape[0] == n and arrays["hidden_states"].shape == (5, n, 64)
    model = regard.Model("story")
    logits, cache = model.run_with_cache(TEXT)
    np.testing.assert_array_equal(arrays["logits"], logits)
    for layer in range(4):
        q, k, v, z, pattern = (cache[name, layer] for name in ("rot_q", "rot_k", "v", "z", "pattern"))
        np.testing.assert_array_equal(arrays["attentions"][layer], pattern)
        # [n, heads, d], as in TransformerLens.
        heads = [x.swapaxes(0, 1)[None] for x in (q, k, v)]
        bound, of_weights, *_ = reference.bounds(*heads)
        ours = regard.attention(*heads, causal="bottom-right", scores="weights")
        # Both are within the bound of the exact number.
        assert np.abs(ours.output[0].swapaxes(0, 1) - z).max() <= 2 * bound
        assert np.abs(ours.scores[0] - pattern).max() <= 2 * of_weights


def test_what_is_kept_and_changed():
    arrays = regard.trace("story", TEXT, keep=["attentions", "blocks.0.attn.hook_z"], changes=[regard.Ablate("0.1")])
    assert set(arrays) == {"attentions", "blocks.0.attn.hook_z", "input_ids", "tokens"}
    assert not arrays["blocks.0.attn.hook_z"][:, 1].any()
    by_ids = regard.trace("story", arrays["input_ids"], keep="attentions", changes=[regard.Ablate("0.1")])
    np.testing.assert_array_equal(by_ids["attentions"], arrays["attentions"])


def test_errors_of_a_trace():
    with pytest.raises(FileNotFoundError, match="no-such-model: there is no such file or folder"):
        regard.trace("no-such-model", TEXT)
    with pytest.raises(KeyError, match="hook_patern.*hook_pattern"):
        regard.trace("story", TEXT, keep="blocks.0.attn.hook_patern")
    with pytest.warns(UserWarning, match="does not know 'Zeppelin'"):
        regard.trace("story", "Zeppelin", keep="logits")


def attentions(layers=3, batch=2, heads=2, n_q=4, n_k=4):
    weights = np.random.default_rng(0).random((layers, batch, heads, n_q, n_k)).astype(np.float32)
    return tuple(weights / weights.sum(-1, keepdims=True))


@pytest.fixture
def no_display(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_display_the_window_prints_a_summary(program, no_display, capsys):
    regard.show(attentions(), ["a", "b", "c", "d"], window=True)
    assert "3 layers" in capsys.readouterr().out


def drawn(page):
    """What the script of a page draws: its fields, and the numbers [texts, layers, heads, queries, keys]."""
    told = json.loads(re.search(r'<script type="application/json">(.*)</script>', page)[1])
    planes = np.frombuffer(zlib.decompress(base64.b64decode(told["numbers"])), np.uint8).reshape(4, -1)
    return told, np.ascontiguousarray(planes.T).view(">f4").reshape(told["shape"])


def test_a_page_has_all_heads_without_the_program(tmp_path, monkeypatch):
    monkeypatch.setattr(regard, "program", None)
    file = tmp_path / "heads.html"
    given = attentions(n_k=5)
    regard.show(given, list("abcd"), key_tokens=["Ġe", *"fghi"], to=file)
    told, numbers = drawn(file.read_text(encoding="utf-8"))
    np.testing.assert_array_equal(numbers, np.stack(given, axis=1))
    assert told["layers"] == ["layer 0", "layer 1", "layer 2"] and told["tokens"][1] == [list("abcd"), ["␣e", *"fghi"]]
    regard.show(given, entry=1, to=file)
    np.testing.assert_array_equal(drawn(file.read_text(encoding="utf-8"))[1][0], np.stack(given)[:, 1])
    model = regard.Model("story")
    regard.show(model, [TEXT, "Tom gave Mia the ball."], to=file)
    told, numbers = drawn(file.read_text(encoding="utf-8"))
    cache = model.run_with_cache([TEXT, "Tom gave Mia the ball."])[1]
    np.testing.assert_array_equal(numbers, np.stack([cache["pattern", layer] for layer in range(4)], axis=1))
    assert told["tokens"][1][0] == model.to_str_tokens("Tom gave Mia the ball.")
    page = file.read_text(encoding="utf-8").replace("http://www.w3.org", "")
    assert "http" not in page and "blob:" not in page and "<iframe" not in page


def test_a_page_of_many_heads_is_small(tmp_path):
    """12 layers of 12 heads of 64 tokens take 2 MB in a cell, also where nothing is masked and nothing is alike."""
    weights = np.random.default_rng(0).dirichlet(np.ones(64), size=(12, 12, 64)).astype(np.float32)
    regard.show(weights, [f"token {i}" for i in range(64)], to=tmp_path / "heads.html")
    assert (tmp_path / "heads.html").stat().st_size <= 2_000_000
    numbers = drawn((tmp_path / "heads.html").read_text(encoding="utf-8"))[1][0]
    np.testing.assert_allclose(numbers, weights, rtol=2**-11, atol=0)


def test_the_three_attentions_of_a_pair_are_drawn(tmp_path):
    model = regard.Model(GOLDEN / "tiny-t5")
    for which, shape in (("encoder", (6, 6)), ("decoder", (3, 3)), ("cross", (3, 6))):
        _, cache = model.run_with_cache([5, 17, 3, 22, 9, 1], "*.hook_pattern", decoder=[0, 7, 5])
        regard.show(cache, list("abc") if shape[0] == 3 else list("defghi"), key_tokens=list("defghi") if which == "cross" else None, which=which, to=tmp_path / "page")
        told, numbers = drawn((tmp_path / "page").read_text(encoding="utf-8"))
        assert told["shape"][3:] == list(shape)
        np.testing.assert_array_equal(numbers[0, 1], cache[{"encoder": "encoder.1.attn.hook_pattern", "decoder": "decoder.1.attn.hook_pattern", "cross": "decoder.1.cross_attn.hook_pattern"}[which]])


def test_tensors_of_transformers_are_shown(tmp_path):
    torch = pytest.importorskip("torch", reason="NOT CHECKED with PyTorch, which is not installed")
    layers = tuple(torch.from_numpy(x).bfloat16().requires_grad_() for x in attentions(n_k=5))
    regard.show(layers, list("abcd"), key_tokens=list("efghi"), to=tmp_path / "page")
    numbers = drawn((tmp_path / "page").read_text(encoding="utf-8"))[1]
    np.testing.assert_array_equal(numbers, np.stack([x.detach().float().numpy() for x in layers], axis=1))


@pytest.mark.parametrize(
    ("given", "tokens", "message"),
    [
        ((None,), None, "layer 0 has no attention weights: load the model with attn_implementation"),
        ((), None, "attentions are empty: .*attn_implementation=.eager., because SDPA"),
        (attentions(), ["a"], r"there are 1 tokens for n_q = 4: .*\[3, 2, 4, 4\]"),
        ((np.zeros((2, 2), np.float32),), None, r"layer 0 has the shape \(2, 2\)"),
        (attentions(1) + attentions(1, n_k=3), None, r"layer 1 has the shape \(2, 2, 4, 3\), but layer 0 has \(2, 2, 4, 4\)"),
    ],
)
def test_what_cannot_be_shown(given, tokens, message):
    with pytest.raises(ValueError, match=message):
        regard.show(given, tokens)
    with pytest.raises(ValueError, match="entry 7 is not in the batch"):
        regard.show(attentions(), entry=7)


def outputs(name):
    """The pages and tables that a notebook of the package shows."""
    import nbclient
    import nbformat

    notebook = nbformat.read(HERE.parent / "examples" / name, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    kinds = ("display_data", "execute_result")
    pages = [output.data["text/html"] for output in outputs if output.output_type in kinds and "text/html" in output.data]
    for page in pages:
        assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page, "needs no network"
    return pages


def test_a_notebook_is_rendered(tmp_path):
    """nbconvert keeps what draws the heads, as it is. With REGARD_RENDERED, the page is kept to be looked at."""
    nbconvert = pytest.importorskip("nbconvert", reason="NOT CHECKED with nbconvert, which is not installed")
    import nbclient
    import nbformat

    notebook = nbformat.read(HERE.parent / "examples" / "attention.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    page, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    told, numbers = drawn(page)
    assert told["layers"] and np.isfinite(numbers).all() and "DecompressionStream" in page
    Path(os.environ.get("REGARD_RENDERED", tmp_path / "page.html")).write_text(page, encoding="utf-8")


def test_the_notebooks_run():
    (page,) = outputs("attention.ipynb")
    assert "regard-heads" in page and drawn(page)[1].size and len(page) < 2_000_000
    shown, *tables = outputs("indirect-object.ipynb")
    assert drawn(shown)[1].size
    assert len(tables) == 6 and all(table.startswith("<div>") and "title=" in table for table in tables)


def test_a_notebook_gets_the_window_s_page_on_demand(monkeypatch):
    """The files that the browser gets. apps/web/tests/page.test.mjs tests the page itself."""
    import nbclient
    import nbformat
    from regard._widget import PAGE, Heads

    if not PAGE:
        pytest.skip("NOT CHECKED: the wheel was built without the page")
    show = "import numpy as np, regard\nregard.show(np.full((1, 2, 3, 3), 1 / 3, np.float32), ['a', 'b', 'c'], window=True)"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(show)])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    (live,) = (output.data for output in notebook.cells[0].outputs)
    models = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
    (state,) = [model for model in models if model["model_name"] == "AnyModel"]
    assert set(live) == {"application/vnd.jupyter.widget-view+json", "text/plain"}
    assert len(nbformat.writes(notebook)) < 20_000, "the file holds neither the page nor the attention"

    heads = Heads(b"attention")
    sent = []
    monkeypatch.setattr(heads, "send", lambda *message: sent.append(message))
    heads._handle_custom_msg({}, [])
    ((names, (attention, *packed)),) = sent
    files = dict(zip(names, map(gzip.decompress, packed), strict=True))
    assert attention == b"attention"
    assert sum(data.startswith(b"\0asm") for data in files.values()) == 1
    # Every file that the widget names exists, and so does the text that it replaces.
    named = set(re.findall(r'"([a-z/]+\.(?:js|html))"', state["state"]["_esm"]))
    assert len(named) == 5 and named <= set(files)
    assert b'<script type="module" src="page.js">' in files["index.html"]
    assert all(re.search(rb""" from ["']\.\.?/system\.js["']""", files[name]) for name in ("page.js", "program/regard.js"))


def test_examples_of_the_documentation():
    tests = [test for thing in (regard.attention, regard.show, regard.trace) for test in doctest.DocTestFinder(recurse=False).find(thing)]
    assert sum(len(test.examples) for test in tests) >= 6
    runner = doctest.DocTestRunner()
    for test in tests:
        runner.run(test)
    assert runner.summarize().failed == 0
    readme = doctest.testfile(str(HERE.parent / "README.md"), module_relative=False)
    assert readme.attempted >= 6 and readme.failed == 0
