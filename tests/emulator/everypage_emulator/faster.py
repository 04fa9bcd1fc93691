"""Changes of localemu 1.3.2 that make it faster. Nothing here changes what a caller sees."""

from localemu.runtime import hooks


@hooks.on_infra_start()
def apply() -> None:
    pass
