"""How long frames are lost after an overload (RFC 2544, section 26.5)."""
