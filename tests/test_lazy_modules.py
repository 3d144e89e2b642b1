"""Packages that are imported when something needs them."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from hta_widgets import lazy_modules
from hta_widgets.cli import main
from hta_widgets.cli.doctor import packages
from hta_widgets.errors import HtaWidgetsError, PackageError
from hta_widgets.lazy_modules import LazyModule
from hta_widgets.trace.cache import column_file
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import kernel, write

TOO_NEW = "pyarrow requires NumPy 2.0 or newer, found 1.26.4"


@pytest.fixture
def broken_pyarrow(monkeypatch):
    """As pip leaves it beside numpy 1.26: installed, and it cannot be imported."""

    def fail(name):
        if name.partition(".")[0] == "pyarrow":
            raise ImportError(TOO_NEW)
        return import_module(name)

    monkeypatch.setattr(lazy_modules, "import_module", fail)
    monkeypatch.setattr(packages, "import_module", fail)
    monkeypatch.setattr(column_file, "pa", LazyModule("pyarrow"))


def test_an_attribute_is_that_of_the_module():
    lazy = LazyModule("json")
    assert lazy.loads is sys.modules["json"].loads
    assert "loads" in vars(lazy)


def test_a_package_that_is_missing_is_named():
    with pytest.raises(PackageError, match="pip install 'no_such_package'"):
        _ = LazyModule("no_such_package.part").anything
    assert issubclass(PackageError, HtaWidgetsError)
    assert issubclass(PackageError, ImportError)


@pytest.mark.usefixtures("broken_pyarrow")
@pytest.mark.usefixtures("cached")
def test_a_trace_says_what_to_install(tmp_path):
    path = write(tmp_path / "a.json", [kernel(0, 5)])
    with pytest.raises(PackageError, match=r"found 1\.26\.4\); pip install 'pyarrow<26'"):
        open_trace(path, progress=False)


@pytest.mark.usefixtures("broken_pyarrow")
@pytest.mark.usefixtures("cached")
def test_a_shell_is_told_without_a_traceback(tmp_path, capsys):
    path = write(tmp_path / "a.json", [kernel(0, 5)])
    assert main(["diagnose", str(path)]) != 0
    assert "pip install 'pyarrow<26'" in capsys.readouterr().err


@pytest.mark.usefixtures("broken_pyarrow")
def test_the_doctor_knows_the_cure():
    (problem,) = packages._not_importable()
    assert TOO_NEW in str(problem)
    assert "pip install 'pyarrow<26', then restart the kernel" in str(problem)
