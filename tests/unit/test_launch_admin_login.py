"""The development login: made once, with a password that nobody can guess, and never changed."""

import pytest
from django.contrib.auth import authenticate, get_user_model

from taskyard.launch.admin_login import AdminLogin, ensure_admin_login

pytestmark = pytest.mark.django_db


def test_the_first_time_it_is_made_with_a_random_password():
    login = ensure_admin_login()

    user = authenticate(username="admin", password=login.password)
    assert user is not None
    assert user.is_superuser
    assert len(login.password) >= 16
    assert login.password in login.describe()


def test_each_database_gets_another_password():
    first = ensure_admin_login().password
    get_user_model().objects.all().delete()

    assert ensure_admin_login().password != first


def test_afterwards_it_says_how_to_change_the_password():
    made = ensure_admin_login()

    found = ensure_admin_login()

    assert found == AdminLogin("admin")
    assert found.describe() == "log in as admin; a new password: manage.py changepassword admin"
    assert authenticate(username="admin", password=made.password) is not None


def test_a_superuser_of_the_users_own_is_enough():
    get_user_model().objects.create_superuser("maria", password="x")

    assert ensure_admin_login() == AdminLogin("maria")
    assert not get_user_model().objects.filter(username="admin").exists()
