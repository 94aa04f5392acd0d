#include "src/net/http_client.cc"
#include "src/oidc/provider.cc"
#include "src/otel/exporter.cc"
