"""HTTP APIs, which localemu's CloudFormation does not support, with Lambda authorizers, which localemu ignores.

The API is the OpenAPI document that SAM generates from the template. Its URL is ENDPOINT/_http-api/ID, the attribute
ApiEndpoint of the stack.
"""

import json
import re

import rolo
from localemu import config
from localemu.aws.connect import connect_to
from localemu.http import Response
from localemu.services.apigatewayv2.handler import HttpApiHandler
from localemu.services.apigatewayv2.route_matcher import RouteMatcher
from localemu.services.cloudformation.resource_provider import (
    CloudFormationResourceProviderPlugin,
    OperationStatus,
    ProgressEvent,
    ResourceProvider,
    ResourceRequest,
)
from localemu.services.edge import ROUTER
from localemu.utils.strings import short_uid

PLACE = "/_http-api"
SHAPES = HttpApiHandler()


class HttpApi:
    def __init__(self, document: dict):
        self.schemes = document.get("components", {}).get("securitySchemes", {})
        self.operations: dict[str, dict] = {}
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                method = "ANY" if method == "x-amazon-apigateway-any-method" else method.upper()
                self.operations["$default" if path == "/$default" else f"{method} {path}"] = operation
        self.matcher = RouteMatcher()
        self.matcher.compile_routes([{"RouteKey": key, "RouteId": key} for key in self.operations])

    def handle(self, request: rolo.Request, api: str, path: str) -> Response:
        route = self.matcher.match(request.method, path)
        if not route:
            return refuse(404, "Not Found")
        operation = self.operations[route.route_key]
        function = arn(operation["x-amazon-apigateway-integration"]["uri"])
        region, account = function.split(":")[3:5]
        event = SHAPES._build_v2_event(request, api, "$default", path, route, account, region)
        event = {key: value for key, value in event.items() if value is not None}
        for requirement in operation.get("security", []):
            for name in requirement.keys() - {"NONE"}:
                refusal = self.authorize(name, event)
                if refusal:
                    return refusal
        answer, failed = invoke(function, event)
        if failed:
            return refuse(500, "Internal Server Error")
        return SHAPES._parse_lambda_response(answer, "2.0")

    def authorize(self, scheme: str, event: dict) -> Response | None:
        """Payload format 2.0 with simple responses; no response is cached."""
        authorizer = self.schemes[scheme]["x-amazon-apigateway-authorizer"]
        sources = authorizer.get("identitySource") or []
        headers = [source.removeprefix("$request.header.").lower() for source in sources]
        identity = [event["headers"].get(header) for header in headers]
        if not all(identity):
            return refuse(401, "Unauthorized")
        request_event = {key: value for key, value in event.items() if key not in ("body", "isBase64Encoded")}
        request_event |= {"type": "REQUEST", "routeArn": "", "identitySource": identity}
        answer, failed = invoke(arn(authorizer["authorizerUri"]), request_event)
        if failed:
            return refuse(500, "Internal Server Error")
        answer = json.loads(answer)
        if not answer.get("isAuthorized"):
            return refuse(403, "Forbidden")
        event["requestContext"]["authorizer"] = {"lambda": answer.get("context") or {}}
        return None


APIS: dict[str, HttpApi] = {}


def arn(uri: str) -> str:
    return re.search(r"/functions/(.+)/invocations", uri)[1]


def invoke(function: str, event: dict) -> tuple[bytes, bool]:
    answer = connect_to(region_name=function.split(":")[3]).lambda_.invoke(
        FunctionName=function, Payload=json.dumps(event).encode()
    )
    return answer["Payload"].read(), "FunctionError" in answer


def refuse(status: int, message: str) -> Response:
    return Response(json.dumps({"message": message}), status=status, content_type="application/json")


def serve() -> None:
    def handle(request: rolo.Request, api: str, path: str = "") -> Response:
        known = APIS.get(api)
        return known.handle(request, api, "/" + path) if known else refuse(404, "Not Found")

    ROUTER.add(path=f"{PLACE}/<api>", endpoint=handle)
    ROUTER.add(path=f"{PLACE}/<api>/<greedy_path:path>", endpoint=handle)


def done(request: ResourceRequest) -> ProgressEvent:
    return ProgressEvent(
        status=OperationStatus.SUCCESS, resource_model=request.desired_state, custom_context=request.custom_context
    )


class ApiProvider(ResourceProvider):
    TYPE = "AWS::ApiGatewayV2::Api"
    SCHEMA = {
        "typeName": TYPE,
        "primaryIdentifier": ["/properties/ApiId"],
        "readOnlyProperties": ["/properties/ApiId", "/properties/ApiEndpoint"],
        "properties": {},
    }

    def create(self, request: ResourceRequest) -> ProgressEvent:
        model = request.desired_state
        model["ApiId"] = short_uid()
        model["ApiEndpoint"] = f"http://127.0.0.1:{config.GATEWAY_LISTEN[0].port}{PLACE}/{model['ApiId']}"
        APIS[model["ApiId"]] = HttpApi(model["Body"])
        return done(request)

    def update(self, request: ResourceRequest) -> ProgressEvent:
        raise NotImplementedError

    def delete(self, request: ResourceRequest) -> ProgressEvent:
        APIS.pop(request.desired_state["ApiId"], None)
        return done(request)


class ApiProviderPlugin(CloudFormationResourceProviderPlugin):
    name = "AWS::ApiGatewayV2::Api"

    def __init__(self):
        self.factory = None

    def load(self):
        self.factory = ApiProvider
