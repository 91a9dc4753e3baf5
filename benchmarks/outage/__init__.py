"""How long a message is under way to one destination while another takes nothing."""
