#include "src/core/causes/words.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "src/core/causes/folded.h"
#include "src/core/causes/token.h"

namespace rung::causes {
namespace {

// Words of one role, separated by blanks.
struct List {
  Roles roles;
  std::string_view words;
};

constexpr List kLists[] = {
    {role::kName,
     "invoke placeholder operation step action command handler scope claim constant plugin column columns "
     "field fields table relation constraint property properties attribute attributes method "
     "function class parameter param argument header variable module index reading setting "
     "schema sequence view trigger enum collection topic queue exchange bean import template partial route "
     "package library symbol identifier struct trait interface permission element member association "
     "annotation "
     "operator extension driver procedure role accessor getter setter namespace option keyspace"},
    {role::kPlainName, "keyerror type name missing required fixture service entity"},
    {role::kCode,
     "status statuscode code codes errno errcode errorcode error_code error-code errornumber err_no "
     "reply-code "
     "replycode status_code status-code httpstatus http_status httpcode http_code exit exitcode exit_code "
     "exited sqlstate sql_state sqlcode signal hresult retcode returncode rc reason-code reasoncode "
     "winerror sig native_error error_number vendorcode vendor_code errorno ret_code"},
    {role::kError, "error err errors failure"},
    {role::kStatus,
     "http https status statuscode code status_code status-code httpstatus http_status httpcode http_code "
     "error_code errorcode smtp"},
    {role::kAnswer,
     "response responded responds returned returns got received receives answered replied answer reply "
     "unexpected expected error failed with a an rejected result gave gives threw request upstream"},
    {role::kOtherCode,
     "postal zip country coupon promo promotion product currency discount area bar qr dial verification "
     "tracking "
     "sort order tax item customer voucher language locale region invoice branch bank airport station "
     "confirmation booking referral access security auth authorization swift department plan sku"},
    {role::kUnit,
     "ns us \xc2\xb5s ms msec msecs millis millisecond milliseconds microsecond microseconds nanoseconds s "
     "sec "
     "secs second seconds m min mins minute minutes h hr hrs hour hours d day days week weeks b byte bytes "
     "kb "
     "mb gb tb kib mib gib k bit bits percent px utc gmt cet cest est edt pst pdt cst cdt mst bst ist jst z "
     "am "
     "pm km kg rpm rps uhr"},
    {role::kCurrency,
     "eur usd gbp chf jpy sek nok dkk pln czk inr cny aud cad brl mxn zar huf nzd sgd hkd krw euro euros "
     "dollars kr z\xc5\x82 k\xc4\x8d lei ft \xd1\x80\xd1\x83\xd0\xb1 rub"},
    {role::kCalendar,
     "mon tue wed thu fri sat sun monday tuesday wednesday thursday friday saturday sunday jan feb mar apr "
     "may "
     "jun jul aug sep sept oct nov dec january february march april june july august september october "
     "november "
     "december"},
    {role::kHost, "lookup enotfound eai_again getaddrinfo unknownhostexception"},
    {role::kMaybeHost, "host resolve resolving hostname server broker node peer"},
    {role::kNoHost,
     "failed for error of in on timed timeout the table returned is could not a an key fails failure "
     "enotfound "
     "eai_again with was and or to by no value field file object address name host hosts"},
    {role::kService,
     "localhost db database redis postgres postgresql mysql mariadb rabbitmq rabbit kafka mongo mongodb "
     "elasticsearch elastic memcached cassandra zookeeper nats consul vault minio etcd"},
    {role::kConnect,
     "to connect connecting connected connection dial tcp econnrefused etimedout econnreset "
     "connecttimeout ehostunreach host server broker address endpoint peer upstream"},
    {role::kSays,
     "code error error_code errorcode type title reason status message msg detail details error_description "
     "kind "
     "state op method exception err error_type errno syscall sqlstate decline_code fault cause statuscode "
     "status_code reply-text reply-code reply_text reply_code description errormessage error_message "
     "errortype exception_type category severity issue"},
    {role::kState, "status state type kind title category severity method op description"},
    {role::kTrace,
     "requestid request_id request-id x-request-id traceid trace_id trace-id correlationid correlation_id "
     "correlation-id spanid span_id span-id debug_id debugid log_id logid"},
    {role::kMethod, "get post put patch delete head"},
    {role::kDefect,
     "invalid missing required blank empty taken unknown unsupported expired duplicate "
     "blocked disabled inactive closed deleted suspended offline locked rejected failed unavailable"},
    {role::kDataType, "string number boolean integer float double int bool str list dict array object map"},
    {role::kParty,
     "customer user supplier vendor merchant seller buyer employee recipient sender patient passenger guest "
     "applicant subscriber tenant payee payer partner beneficiary cardholder consignee creditor debtor "
     "colleague manager agent owner reseller dealer "
     "warehouse city town country region store shop branch depot printer airport station "
     "kunde kundin lieferant cliente fournisseur proveedor fornitore klant leverancier klient utilisateur "
     "usuario z\u00e1kazn\u00edk z\u00e1kazn\u00edka dodavatel odb\u011bratel"},
    {role::kResult,
     "error result response return reason refusal decline failure fault rejection message exception msg err"},
    {role::kTechnical,
     "utf8 utf16 utf32 utf8mb4 utf8mb3 utf-8 utf-16 utf-16le utf-16be utf-32 utf-7 sha1 sha224 sha256 sha384 "
     "sha512 sha3 sha-1 sha-256 sha-384 sha-512 md4 md5 base16 base32 base58 base62 base64 base64url int2 "
     "int4 "
     "int8 int16 int32 int64 int128 uint8 uint16 uint32 uint64 float4 float8 float16 float32 float64 u8 u16 "
     "u32 "
     "u64 u128 i8 i16 i32 i64 i128 f32 f64 ipv4 ipv6 ip4 ip6 tcp4 tcp6 udp4 udp6 http1 http2 http3 h2 h2c h3 "
     "s3 "
     "ec2 r2 d1 oauth1 oauth2 x509 x86 x64 x86_64 amd64 arm64 sslv2 sslv3 ssl3 tlsv1 tls1 pkcs1 pkcs5 pkcs7 "
     "pkcs8 pkcs11 pkcs12 pkcs#8 p12 log4j log4j2 log4net slf4j i18n l10n a11y k8s web3 win32 win64 mp3 mp4 "
     "m4a "
     "h264 h265 latin1 cp1252 cp437 rs256 rs384 rs512 hs256 hs384 hs512 es256 es384 es512 ps256 ps384 ps512 "
     "ed25519 ed448 x25519 secp256k1 secp256r1 aes128 aes192 aes256 aes-128 aes-256 3des rc4 rfc2822 rfc3339 "
     "rfc822 rfc1123 iso8601 iso-8601 iso3166 python2 python3 py2 py3 libc6 db2 neo4j junit4 junit5 crc32 "
     "crc32c "
     "argon2 argon2id sqlite3 psycopg2 psycopg3 mysql2 mysqli ext3 ext4 lz4 bzip2 gb18030 gb2312 big5 e2e "
     "b2b "
     "b2c p2p w3c openapi3 ed2k http1.1 boto3 botocore urllib3 urllib2 httplib2 jinja2 dll32 kernel32 "
     "msvcr100 "
     "y2k amqp091 amqp1 mqtt3 mqtt5 sec1 v1beta1 v1alpha1 v2beta1 v2beta2 beta1 alpha1 level1 2xx 3xx 4xx "
     "5xx "
     "jsr310 jsr303 h2database ipv4address ipv6address utf8string 3d 2d 2fa mfa2 rs485 s3a s3n 32-bit 64-bit "
     "16-bit 8-bit ehlo x11 "},
    {role::kTopLevel,
     "com net org io local internal lan corp dev cloud svc eu de uk fr nl ch info biz app localdomain intra "
     "prod "
     "staging test example invalid private consul aws tech ai co cluster home arpa intranet"},
    {role::kVendor,
     "ora pls tns rman imp sql sp2 ins wfly hhh msb aadsts kfk srve cwwk ibm err jbas xaer drg lrm oci jzn "
     "sqle sqln dsra amqxnn hv nu cs ts ns bc lnk msb ca err_ mgr dpi dpy prisma pgrst nhibernate "
     "ociexception"},
    {role::kSource,
     "java kt kts scala groovy clj cs fs vb py pyx rb php js ts jsx tsx mjs cjs go rs ex exs erl hrl cc cpp "
     "cxx c "
     "h hpp hh swift pl pm lua vue svelte dart m mm"},
    {role::kData,
     "pdf csv tsv xml json txt png jpg jpeg gif zip gz tgz tar log tmp xls xlsx doc docx parquet avro yaml "
     "yml "
     "bin dat edi bak svg webp tiff mp4 mov eml html htm lock pem crt jsonl bz2 zst pdb jar tif mp3 wav mkv "
     "ods odt ppt pptx rtf eps heic orc gpg p12 pfx crl ics vcf ndjson "
     "sqlite dump sql part"},
    {role::kMedia, "application text image multipart audio video font message model"},
    {role::kAfterStatus,
     "from for on after response responses error errors status when while at and but in client server to "
     "code "
     "by instead via is was not expected reason body as, as returned received since trying calling"},
    {role::kIdentifier,
     "id ids uuid guid requestid request_id request-id traceid trace_id trace-id correlationid "
     "correlation_id "
     "messageid message_id message-id etag sha digest checksum token nonce serial session sessionid "
     "session_id spanid"},
    {role::kLabel,
     "host server node broker file user tenant item job msg message order customer id sku request trace cid "
     "run task "
     "account path device worker"},
    {role::kCapitalId,
     "bic swift iban isin pnr sku ean asin vin imei locator product voucher coupon airport currency country "
     "warehouse depot printer terminal store region city tariff"},
    {role::kThread, "thread loader"},
    {role::kPath, "path loc instancepath param location"},
    {role::kIdPrefix, "sku ord inv cus cust req txn rma po tkt ch pi evt acct usr"},
    {role::kLiteral, "true false null nil none undefined nan"},
};

constexpr std::size_t kSlots = 2048;  // a power of two, more than twice the words
constexpr std::size_t kLongestWord = 24;

constexpr std::uint32_t hash_of(std::string_view word) {
  std::uint32_t hash = 2166136261U;
  for (const char c : word) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash ^ (hash >> 15U);
}

struct Slot {
  std::string_view word;
  Roles roles = 0;
};

consteval std::array<Slot, kSlots> table_of_words() {
  std::array<Slot, kSlots> slots{};
  for (const List& list : kLists) {
    for (std::size_t from = 0; from < list.words.size();) {
      const std::size_t to = std::min(list.words.find(' ', from), list.words.size());
      const std::string_view word = list.words.substr(from, to - from);
      std::size_t at = hash_of(word) % kSlots;
      while (!slots[at].word.empty() && slots[at].word != word) at = (at + 1) % kSlots;
      if (!word.empty()) slots[at] = {word, slots[at].roles | list.roles};
      from = to + 1;
    }
  }
  return slots;
}
constexpr std::array<Slot, kSlots> kWords = table_of_words();

constexpr std::string_view kReasons[] = {"bad request",
                                         "unauthorized",
                                         "payment required",
                                         "forbidden",
                                         "not found",
                                         "method not",
                                         "not acceptable",
                                         "proxy auth",
                                         "request time",
                                         "conflict",
                                         "gone",
                                         "length required",
                                         "precondition",
                                         "payload too",
                                         "content too",
                                         "uri too",
                                         "request-uri",
                                         "request entity",
                                         "unsupported media",
                                         "expectation failed",
                                         "misdirected",
                                         "unprocessable",
                                         "locked",
                                         "failed dependency",
                                         "too early",
                                         "upgrade required",
                                         "too many requests",
                                         "request header",
                                         "unavailable for",
                                         "internal server",
                                         "internal error",
                                         "not implemented",
                                         "bad gateway",
                                         "service unavail",
                                         "service temp",
                                         "gateway time",
                                         "http version",
                                         "insufficient stor",
                                         "network auth",
                                         "client error",
                                         "server error",
                                         "moved permanently",
                                         "temporary redirect",
                                         "no content",
                                         "not modified"};

constexpr std::string_view kAfterName[] = {"is required",     "are required",
                                           "is not allowed",  "is missing",
                                           "must ",           "cannot be",
                                           "can't be",        "can not be",
                                           "should ",         "is not defined",
                                           "is undefined",    "is not a function",
                                           "is not iterable", "object has no",
                                           "column",          "field",
                                           "property",        "parameter",
                                           "is a required",   "was not provided",
                                           "may not be",      "has no attribute",
                                           "is mandatory",    "object is not",
                                           "is null",         "tag",
                                           "violates",        "does not have a",
                                           "doesn't have a",  "not in index",
                                           "header",          "attribute",
                                           "has no member",   "constraint",
                                           "is not nullable", "instance has no",
                                           "argument",        "failed validation"};

// "Code" of "reasonCode", "code" of "reason_code".
std::string_view last_part(std::string_view key) {
  while (!key.empty() && !is_letter(key.back())) key.remove_suffix(1);
  std::size_t from = key.size();
  while (from > 0 && is_letter(key[from - 1])) {
    --from;
    if (is_upper(key[from]) && from > 0 && is_lower(key[from - 1])) break;
  }
  return key.substr(from);
}

}  // namespace

Roles roles_of(std::string_view word) {
  if (word.empty() || word.size() > kLongestWord) return 0;
  for (std::size_t at = hash_of(word) % kSlots; !kWords[at].word.empty(); at = (at + 1) % kSlots) {
    if (kWords[at].word == word) return kWords[at].roles;
  }
  return 0;
}

Roles roles_of_key(std::string_view key) {
  const Roles whole = Folded(key).roles();
  if (whole != 0) return whole;
  const std::string_view last = last_part(key);
  const Roles roles = Folded(last).roles();
  if (last.size() == key.size()) return 0;
  if ((roles & role::kResult) != 0) return role::kSays;
  const Folded end(last);
  if (end.view() == "field" || end.view() == "column" || end.view() == "property") return role::kName;
  // Not of "shippingStatus", "currencyCode".
  const std::string_view before = last_part(key.substr(0, key.size() - last.size()));
  const Roles first = Folded(before).roles();
  if ((first & role::kName) != 0 && (end.view() == "name" || end.view() == "path")) return role::kName;
  if ((roles & role::kSays) == 0 || (first & role::kResult) == 0) return 0;
  return role::kSays | (roles & role::kCode);
}

bool begins_with(std::string_view text, std::string_view begin) {
  if (text.size() < begin.size()) return false;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    if (lowered(text[i]) != begin[i]) return false;
  }
  return true;
}

bool begins_with_reason(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" ()[]:-,'\"_"), text.size()));
  return std::ranges::any_of(kReasons, [&](std::string_view reason) { return begins_with(text, reason); });
}

bool begins_as_after_name(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return std::ranges::any_of(kAfterName, [&](std::string_view after) { return begins_with(text, after); });
}

}  // namespace rung::causes
