package access

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"testing"
)

// FuzzJWKS: a key set that anybody may have written gives keys that can be used, or none.
func FuzzJWKS(f *testing.F) {
	for _, text := range []string{`{"keys":[]}`, `{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`, `{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`,
		`{"keys":[{"kty":"EC","crv":"P-256","x":"gI0GAILBdu7T53akrFmMyGcsF3n5dO7MmwNBHKW5SV0","y":"SLW_xSffzlPWrHEVI30DHM_4egVwt3NQqeUD7nMFpps","kid":"a"}]}`,
		`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`, `{"keys":[{"kty":"oct","k":"AAAA"},null,7]}`, `[]`, `{`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		keys, err := parseKeys(raw)
		if err != nil {
			return
		}
		for _, k := range keys {
			usable(t, k.key)
			for _, alg := range []string{"RS256", "PS512", "ES256", "ES384", "ES512", "EdDSA"} {
				if found := pick(keys, k.kid, alg); found != nil {
					usable(t, found)
				}
			}
			if k.fits("HS256") || k.fits("none") || k.fits("") {
				t.Fatalf("a key of type %T fits algorithms that it must not be used for", k.key)
			}
		}
	})
}

func usable(t *testing.T, key crypto.PublicKey) {
	t.Helper()
	switch k := key.(type) {
	case *rsa.PublicKey:
		if k.N == nil || k.N.BitLen() < 2048 || k.E < 3 {
			t.Fatalf("an RSA key of %d bits with exponent %d", k.N.BitLen(), k.E)
		}
	case *ecdsa.PublicKey:
		if _, err := k.ECDH(); err != nil {
			t.Fatalf("a point that is not on the curve: %v", err)
		}
	case ed25519.PublicKey:
		if len(k) != ed25519.PublicKeySize {
			t.Fatalf("a key of %d bytes", len(k))
		}
	default:
		t.Fatalf("a key of type %T", key)
	}
}
