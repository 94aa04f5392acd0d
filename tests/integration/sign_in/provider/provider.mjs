// An identity provider on 127.0.0.1, with new keys at each start.
// usage: node provider.mjs PORT CALLBACK; needs oidc-provider (package-lock.json). SIGTERM ends it.
// People: whoever logs in, with any password; `GROUPS` says who is in which groups. Clients: rung (people, by the
// authorization code flow), ci and wiki (by client credentials).
import { createPrivateKey, generateKeyPairSync, randomUUID } from 'node:crypto';
import Provider from 'oidc-provider';

const port = Number(process.argv[2]);
const console_callback = process.argv[3];
const issuer = `http://127.0.0.1:${port}`;
const GROUPS = { alice: ['sre', 'everyone'], ci: ['deployers'], wiki: ['deployers'] };

// By PEM: Node.js 20 deadlocks when the garbage collector frees the generator's job while its key is exported as JWK.
function key(type, options, alg) {
  const { privateKey } = generateKeyPairSync(type, {
    ...options,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  return { ...createPrivateKey(privateKey).export({ format: 'jwk' }), alg, use: 'sig', kid: randomUUID() };
}

const machine = (client_id) => ({
  client_id, client_secret: `${client_id}-secret`, grant_types: ['client_credentials'], redirect_uris: [], response_types: [],
});

const provider = new Provider(issuer, {
  jwks: { keys: [key('rsa', { modulusLength: 2048 }, 'RS256'), key('ec', { namedCurve: 'P-256' }, 'ES256')] },
  cookies: { keys: [randomUUID()] },
  clients: [
    { client_id: 'rung', token_endpoint_auth_method: 'none', redirect_uris: ['http://127.0.0.1/callback', console_callback] },
    machine('ci'), machine('wiki'),
  ],
  pkce: { required: () => true },
  claims: { openid: ['sub', 'preferred_username', 'groups'] },
  conformIdTokenClaims: false, // the claims are in the ID token, not only at /me
  findAccount: (ctx, id) => ({
    accountId: id,
    claims: () => ({ sub: id, preferred_username: id, groups: GROUPS[id] ?? [] }),
  }),
  extraTokenClaims: (ctx, token) => ({ groups: GROUPS[token.clientId] ?? [] }),
  features: {
    devInteractions: { enabled: true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: () => ({
        audience: 'rung', scope: '', accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } },
      }),
    },
  },
});

const server = provider.listen(port, '127.0.0.1', () => console.log('listening'));
process.on('SIGTERM', () => {
  server.close();
  server.closeAllConnections();
});
