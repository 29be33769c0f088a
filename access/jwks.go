package access

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

const (
	maxIssuerKeys = 100
	minRSA        = 2048 // bits
	maxRSA        = 8192
)

// issuerKey is a public key of the issuer.
type issuerKey struct {
	kid, alg string
	key      crypto.PublicKey
}

// fits reports whether a token signed in this way may be checked with the key.
func (k *issuerKey) fits(alg string) bool {
	if k.alg != "" && k.alg != alg {
		return false
	}
	switch key := k.key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		return alg == map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[key.Params().BitSize]
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}

// jwk is one key as it is published (RFC 7517).
type jwk struct {
	Kty    string   `json:"kty"`
	Use    string   `json:"use"`
	Ops    []string `json:"key_ops"`
	Alg    string   `json:"alg"`
	Kid    string   `json:"kid"`
	Crv    string   `json:"crv"`
	N      string   `json:"n"`
	E      string   `json:"e"`
	X      string   `json:"x"`
	Y      string   `json:"y"`
	Secret string   `json:"k"`
}

// parseKeys reads a key set. Keys that are not for checking signatures are left out; shared secrets among them are
// an error, because a set with one is not public.
func parseKeys(raw []byte) ([]issuerKey, error) {
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, fmt.Errorf("no key set: %w", err)
	}
	if len(set.Keys) > maxIssuerKeys {
		return nil, fmt.Errorf("%d keys, at most %d are read", len(set.Keys), maxIssuerKeys)
	}
	var out []issuerKey
	for i, k := range set.Keys {
		if k.Use != "" && k.Use != "sig" || len(k.Ops) > 0 && !slices.Contains(k.Ops, "verify") {
			continue
		}
		if k.Kty == "oct" || k.Secret != "" {
			return nil, fmt.Errorf("key %d is a shared secret", i)
		}
		key, err := k.public()
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i, err)
		}
		if key != nil {
			out = append(out, issuerKey{kid: k.Kid, alg: k.Alg, key: key})
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no key that signatures could be checked with")
	}
	return out, nil
}

// public is the key itself, nil for a kind that is not known.
func (k *jwk) public() (crypto.PublicKey, error) {
	switch {
	case k.Kty == "RSA":
		return k.rsa()
	case k.Kty == "EC":
		return k.ec()
	case k.Kty == "OKP" && k.Crv == "Ed25519":
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil, errors.New("x is not a point of Ed25519")
		}
		return ed25519.PublicKey(x), nil
	}
	return nil, nil
}

func (k *jwk) rsa() (crypto.PublicKey, error) {
	n, err := number(k.N)
	if err != nil {
		return nil, err
	}
	e, err := number(k.E)
	if err != nil {
		return nil, err
	}
	if bits := n.BitLen(); bits < minRSA || bits > maxRSA {
		return nil, fmt.Errorf("an RSA key of %d bits", bits)
	}
	if e.BitLen() > 31 || e.Int64() < 3 || e.Bit(0) == 0 {
		return nil, errors.New("the exponent is out of range")
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}, nil
}

func (k *jwk) ec() (crypto.PublicKey, error) {
	curve := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[k.Crv]
	if curve == nil {
		return nil, nil // such as secp256k1
	}
	x, xerr := base64.RawURLEncoding.DecodeString(k.X)
	y, yerr := base64.RawURLEncoding.DecodeString(k.Y)
	size := (curve.Params().BitSize + 7) / 8
	if xerr != nil || yerr != nil || len(x) != size || len(y) != size {
		return nil, errors.New("x and y are not a point of " + k.Crv)
	}
	point := append(append([]byte{4}, x...), y...)
	return ecdsa.ParseUncompressedPublicKey(curve, point)
}

func number(text string) (*big.Int, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) == 0 || len(raw) > maxRSA/8+1 {
		return nil, errors.New("a number is not readable")
	}
	return new(big.Int).SetBytes(raw), nil
}
