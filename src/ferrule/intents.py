"""What a package needs to add a kind of intent to the service, by the entry point `ferrule.intent_handlers`."""

from ferrule.service.intent_handlers import HandlerError, HandlerOptions, IntentCall, IntentHandler, KnownThings

__all__ = ["HandlerError", "HandlerOptions", "IntentCall", "IntentHandler", "KnownThings"]
