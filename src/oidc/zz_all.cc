#include "src/oidc/provider.cc"
#include "src/otel/exporter.cc"
#include "src/net/http_client.cc"
