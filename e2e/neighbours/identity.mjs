// panva's oidc-provider with one client. By default the claims of people are at userinfo only.
// Arguments: the port, the client's redirect address, false for claims in the ID token.
import Provider from "oidc-provider";

const [port, redirect, thin] = process.argv.slice(2);
const provider = new Provider(`http://localhost:${port}`, {
  clients: [{ client_id: "stoa", client_secret: "the-secret-of-the-client", redirect_uris: [redirect], grant_types: ["authorization_code"], response_types: ["code"] }],
  claims: { email: ["email", "email_verified"], profile: ["name", "preferred_username"], groups: ["groups"] },
  conformIdTokenClaims: thin !== "false",
  cookies: { keys: ["the-key-of-its-cookies"] },
  findAccount: async (_, id) => ({
    accountId: id,
    claims: async () => ({ sub: id, name: `${id} of the Tests`, email: `${id}@example.com`, email_verified: true, groups: id === "ada" ? ["operators"] : [] }),
  }),
});
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
