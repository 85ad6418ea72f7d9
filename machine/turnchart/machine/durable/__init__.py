"""Turns that outlive their worker, with DBOS over Postgres or a file; asyncio only (``turnchart[durable]``).

``Worker`` runs the turns of a flow, ``DurableAgent`` asks for them; each in as many processes as one likes.
"""

from turnchart.machine.durable.client import Asked as Asked
from turnchart.machine.durable.client import DurableAgent as DurableAgent
from turnchart.machine.durable.client import DurableTurn as DurableTurn
from turnchart.machine.durable.journal import DurableError as DurableError
from turnchart.machine.durable.worker import Worker as Worker
