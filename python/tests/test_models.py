"""`regard.trace`, and `regard.show` with the program in the wheel."""

import doctest
import gzip
import re
from pathlib import Path

import numpy as np
import pytest
import reference
import regard

TEXT = "Mia gave Tom the ball."
HERE = Path(__file__).parent


def test_the_program_is_the_one_of_the_package():
    from importlib import metadata

    scripts = [Path(f.locate()).resolve() for f in metadata.files("regard") if f.name in ("regard", "regard.exe")]
    assert [regard.program()] == scripts


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


def test_without_a_display_a_summary_is_printed(no_display, capsys):
    regard.show(attentions(), ["a", "b", "c", "d"], notebook=False)
    assert "3 layers" in capsys.readouterr().out


def test_tensors_of_transformers_are_shown(no_display, capsys):
    torch = pytest.importorskip("torch", reason="NOT CHECKED with PyTorch, which is not installed")
    layers = tuple(torch.from_numpy(x).bfloat16().requires_grad_() for x in attentions(n_k=5))
    regard.show(layers, list("abcd"), key_tokens=list("efghi"), entry=1, notebook=False)
    assert "3 layers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "tokens", "message"),
    [
        ((None,), None, "layer 0 has no attention weights: load the model with attn_implementation"),
        ((), None, "attentions are empty"),
        (attentions(), ["a"], r"there are 1 tokens for n_q = 4: .*\[3, 2, 4, 4\]"),
        ((np.zeros((2, 2), np.float32),), None, r"layer 0 has the shape \(2, 2\)"),
        (attentions(1) + attentions(1, n_k=3), None, r"layer 1 has the shape \(2, 4, 3\), but layer 0 has \(2, 4, 4\)"),
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


def test_the_notebooks_run():
    (page,) = outputs("attention.ipynb")
    assert page.startswith('<div id="regard-') and "<iframe srcdoc=" in page
    shown, *tables = outputs("indirect-object.ipynb")
    assert "<iframe srcdoc=" in shown
    assert len(tables) == 6 and all(table.startswith("<div>") and "title=" in table for table in tables)


def test_a_notebook_gets_the_page_on_demand(monkeypatch):
    """The files that the browser gets. apps/web/tests/page.test.mjs tests the page itself."""
    import nbclient
    import nbformat
    from regard._widget import PAGE, Heads

    if not PAGE:
        pytest.skip("NOT CHECKED: the wheel was built without the page")
    show = "import numpy as np, regard\nregard.show(np.full((1, 2, 3, 3), 1 / 3, np.float32), ['a', 'b', 'c'])"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(show)])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    drawn, live = (output.data for output in notebook.cells[0].outputs)
    models = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
    (state,) = [model for model in models if model["model_name"] == "AnyModel"]
    assert drawn["text/html"].startswith(f'<div id="{state["state"]["drawn"]}">')
    assert set(live) == {"application/vnd.jupyter.widget-view+json", "text/plain"}
    assert len(nbformat.writes(notebook)) - len(drawn["text/html"]) < 20_000, "the file holds neither the page nor the attention"

    heads = Heads("drawn", b"attention")
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
