"""The command line."""

from turnchart.flows.cli.main import main as main
