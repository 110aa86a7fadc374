"""What of this machine, this configuration and these agents would keep runs from working.

Each diagnosis is about one fact. It changes nothing, and says cause and remedy where the fact is
not as it should be. The daemon examines its own surroundings; without one its program does.
"""
