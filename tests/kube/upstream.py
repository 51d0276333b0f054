# SPDX-License-Identifier: Apache-2.0
"""For fake_apiserver: a real API server behind it, asked as its administrator.

A folder has its address in "upstream" (HOST:PORT), the authority in ca.pem and
a client certificate in admin.pem and admin.key.
"""
import http.client
import json
import multiprocessing.pool
import os
import ssl


class Upstream:
    def __init__(self, folder):
        with open(os.path.join(folder, "upstream")) as file:
            self.host, _, self.port = file.read().strip().rpartition(":")
        self.context = ssl.create_default_context(
            cafile=os.path.join(folder, "ca.pem"))
        self.context.load_cert_chain(os.path.join(folder, "admin.pem"),
                                     os.path.join(folder, "admin.key"))

    def _ask(self, method, path, value=None):
        connection = http.client.HTTPSConnection(
            self.host, int(self.port), context=self.context, timeout=60)
        body = None if value is None else json.dumps(value).encode()
        connection.request(method, path, body,
                           {"Content-Type": "application/json",
                            "Accept": "application/json"})
        return connection, connection.getresponse()

    def call(self, method, path, value=None):
        """The answer's code, and its JSON or None."""
        connection, response = self._ask(method, path, value)
        data = response.read()
        connection.close()
        try:
            return response.status, json.loads(data)
        except ValueError:
            return response.status, None

    def watch(self, path):
        """Each change, (type, object), until the server ends it."""
        connection, response = self._ask("GET", path)
        try:
            for line in response:
                change = json.loads(line)
                yield change["type"], change["object"]
        finally:
            connection.close()

    def clear(self, collections):
        """Remove all that is in each, whatever its finalizers want."""
        with multiprocessing.pool.ThreadPool(8) as pool:
            for path in collections:
                self.call("DELETE", path)
                items = self.call("GET", path)[1]["items"]
                pool.map(lambda item, path=path: self._let_go(path, item),
                         items)

    def _let_go(self, path, item):
        item["metadata"]["finalizers"] = []
        self.call("PUT", path + "/" + item["metadata"]["name"], item)
