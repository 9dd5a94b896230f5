"""moto, an S3 server, that enforces a policy for each user. Its state is in memory.

Creates the bucket `captures`, a user for each NAME=FILE with the policy in FILE, and the user `owner`, with every right. Placeholders in the
policies stand for the archive `s3://captures/lab` and for the sensor NAME.

Usage: roles.py KEYS NAME=FILE …    writes the port and the keys of the users to the file KEYS, as JSON, when it is ready
"""

import html
import json
import logging
import os
import re
import sys

os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")

from moto import settings
from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam.models import iam_backends
from moto.s3.models import s3_backends
from moto.s3.responses import S3Response
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

authorize = S3Response._authenticate_and_authorize_s3_action


def by_key(self, bucket_name=None, key_name=None):
    """Of a request that deletes several objects, moto checks the bucket only. Object stores check each key."""
    keys = [key_name]
    if key_name is None and self.data.get("Action") == "DeleteObject":
        keys = [html.unescape(it.decode()) for it in re.findall(b"<Key>(.*?)</Key>", self.raw_body)]
    for key in keys:
        authorize(self, bucket_name, key)


S3Response._authenticate_and_authorize_s3_action = by_key
settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
s3_backends[DEFAULT_ACCOUNT_ID]["aws"].create_bucket("captures", "us-east-1")
iam = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
policies = {"owner": json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]})}
for argument in sys.argv[2:]:
    name, file = argument.split("=")
    policy = open(file).read()
    for placeholder, value in {"BUCKET": "captures", "PREFIX": "lab", "SENSOR": name}.items():
        policy = policy.replace(placeholder, value)
    policies[name] = policy
keys = {}
for name, policy in policies.items():
    iam.create_user("us-east-1", name)
    iam.put_user_policy(name, "role", policy)
    key = iam.create_access_key(name)
    keys[name] = [key.access_key_id, key.secret_access_key]

logging.getLogger("werkzeug").setLevel(logging.ERROR)
# Create-only puts are atomic only if nothing else happens meanwhile, so there is one thread.
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app))
with open(sys.argv[1] + ".new", "w") as file:
    json.dump({"port": server.server_port, "keys": keys}, file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()
