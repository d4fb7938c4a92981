"""Thespian over Unix sockets: only for processes of the same user, and without unpickling what was not foreseen.

Thespian's own network bases listen on every interface and unpickle whatever arrives; they are refused here.
"""
