import subprocess
import sys

import pydantic

from turnchart.flows.cli.lean import without_pydantic_plugins


def test_models_are_built_without_a_look_at_every_package() -> None:
    code = (
        "from importlib import metadata\n"
        "def entry_points(**given): raise SystemExit('packages were looked at')\n"
        "metadata.entry_points = entry_points\n"
        "import pydantic\n"
        "from turnchart.flows.cli.lean import without_pydantic_plugins\n"
        "with without_pydantic_plugins():\n"
        "    pydantic.create_model('Made', x=(int, 0))(x=1)\n"
    )
    path = {"PYTHONPATH": ":".join(entry for entry in sys.path if entry)}
    subprocess.run([sys.executable, "-c", code], check=True, env=path)


def test_a_model_that_is_built_so_is_like_any_other() -> None:
    with without_pydantic_plugins():
        made = pydantic.create_model("Made", x=(int, 0))
    assert made(x="1").model_dump() == {"x": 1}
