"""Answer: what does the relay cost beside the client alone, broker by broker?"""

from __future__ import annotations
