"""Pictures of the lifecycle, of a flow, and of a recorded session. Pure but for ``images``."""

from turnchart.diagrams.difference import difference as difference
from turnchart.diagrams.images import ImageError as ImageError
from turnchart.diagrams.images import image as image
from turnchart.diagrams.markdown import sequence_table as sequence_table
from turnchart.diagrams.markdown import state_table as state_table
from turnchart.diagrams.overlay import Drawable as Drawable
from turnchart.diagrams.overlay import HasOverlay as HasOverlay
from turnchart.diagrams.overlay import Overlay as Overlay
from turnchart.diagrams.overlay import session_overlay as session_overlay
from turnchart.diagrams.page import PageError as PageError
from turnchart.diagrams.page import html_page as html_page
from turnchart.diagrams.sequence import sequence_diagram as sequence_diagram
from turnchart.diagrams.state import state_diagram as state_diagram
