"""The reference project's settings with a payment provider that keeps books."""

from config.settings import *  # noqa: F403

ORDERS_PAYMENT_PROVIDER = "tests.support.order_books.BookkeepingProvider"
EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
SECURE_SSL_REDIRECT = False
