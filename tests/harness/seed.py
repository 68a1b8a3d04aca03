"""What everything random in a suite begins with: SEED=N repeats a run's choices."""

import os
import random

SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))
