"""The built-in tools, made for one root by factories."""

from .files import list_files_tool as list_files_tool
from .files import read_file_tool as read_file_tool
from .shell import shell_tool as shell_tool
from .table import TOOLBOX as TOOLBOX
from .table import make as make
from .table import names as names
