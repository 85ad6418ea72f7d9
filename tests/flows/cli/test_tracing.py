from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


def test_a_run_is_traced(
    cli: Callable[..., Any], flow: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(api, "get_tracer_provider", lambda: provider)
    path = flow("[hello]")
    assert cli("run", path, "hi", "--trace").out == "hello\n"
    assert sorted(span.name for span in exporter.get_finished_spans()) == [
        "chat script.yaml", "invoke_agent small",
    ]  # fmt: skip
    assert cli("run", path, "hi").code == 0
    assert len(exporter.get_finished_spans()) == 2


def test_where_nothing_says_where_spans_go(
    cli: Callable[..., Any], flow: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "get_tracer_provider", api.ProxyTracerProvider)
    ended = cli("run", flow("[hello]"), "hi", "--trace")
    assert (ended.code, "opentelemetry-instrument turnchart run" in ended.err) == (1, True)
