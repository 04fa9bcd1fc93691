"""Plug-in of localemu: runs functions as processes of this machine, without containers."""
