"""What ``run --trace`` asks of the agent that is run."""

from turnchart.machine.agent import Agent
from turnchart.machine.errors import TurnchartError


def traced(agent: Agent) -> Agent:
    """Send what an agent does as spans to the provider of this process.

    Raises:
        TurnchartError: If OpenTelemetry is not installed, or nobody set up where spans go.
    """
    from turnchart.hooks.tracing import trace

    trace(agent)
    from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

    if isinstance(get_tracer_provider(), ProxyTracerProvider):
        raise TurnchartError(
            "--trace: nothing says where spans go; start it as `opentelemetry-instrument turnchart run ...`"
            " (pip install opentelemetry-distro opentelemetry-exporter-otlp)"
        )
    return agent
