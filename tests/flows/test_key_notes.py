"""Every key of the format is explained, and nothing else is."""

import pytest
from pydantic import BaseModel

from turnchart.flows import schema
from turnchart.flows.json_schema import project_schema
from turnchart.flows.key_notes import NOTES

MODELS = {
    name: each
    for name, each in vars(schema).items()
    if isinstance(each, type) and issubclass(each, BaseModel) and each.model_fields
}


def test_every_map_of_the_format_is_explained() -> None:
    assert NOTES.keys() == MODELS.keys()


@pytest.mark.parametrize("name", MODELS)
def test_every_key_is_explained_in_one_sentence(name: str) -> None:
    assert list(NOTES[name]) == schema.known_keys(MODELS[name])
    assert all(note.endswith(".") and len(note) < 110 for note in NOTES[name].values())


def test_editors_show_what_a_key_means() -> None:
    whole = project_schema()
    assert whole["properties"]["limits"]["description"] == NOTES["FlowFile"]["limits"]
    assert whole["$defs"]["LimitRules"]["properties"]["max_steps"]["description"].startswith("Requests")
    assert "env_from" in whole["$defs"]["pre_tool:run"]["properties"]
    assert whole["$defs"]["pre_tool:run"]["properties"]["timeout"]["description"].startswith("Seconds")
