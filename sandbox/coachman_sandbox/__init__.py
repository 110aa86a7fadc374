"""The boundary of an agent as data: profiles, policies and their compilation for bubblewrap."""
