"""Tell the story: a billing example, three ordinary receivers, and what happens to money."""
