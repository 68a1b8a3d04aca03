"""Every case that Python clients share."""

from harness.client_cases.admin import Admin, GroupAdmin  # noqa: F401
from harness.client_cases.consume import Consume  # noqa: F401
from harness.client_cases.errors import Errors, GroupErrors  # noqa: F401
from harness.client_cases.group import Group  # noqa: F401
from harness.client_cases.produce import Produce  # noqa: F401
