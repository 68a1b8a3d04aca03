"""Every case that Python clients share."""

from client_cases.admin import Admin, GroupAdmin  # noqa: F401
from client_cases.consume import Consume  # noqa: F401
from client_cases.errors import Errors, GroupErrors  # noqa: F401
from client_cases.group import Group  # noqa: F401
from client_cases.produce import Produce  # noqa: F401
from client_cases.transactions import Transactions  # noqa: F401
