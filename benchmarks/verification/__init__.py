"""Ask what a provider's signature costs to check, beside one bare HMAC of the same body."""
