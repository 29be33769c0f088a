package kubetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// issued is a certificate and the authority that has signed it, all PEM.
type issued struct{ ca, cert, key []byte }

// issue makes an authority and a certificate of it for an address.
func issue(ip string) (*issued, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	authority := certificate("kubetest-ca", 1)
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	ca, err := x509.CreateCertificate(rand.Reader, authority, authority, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	serving := certificate("kubetest", 2)
	serving.KeyUsage, serving.ExtKeyUsage, serving.IPAddresses = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, []net.IP{net.ParseIP(ip)}
	cert, err := x509.CreateCertificate(rand.Reader, serving, authority, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &issued{ca: encode("CERTIFICATE", ca), cert: encode("CERTIFICATE", cert), key: encode("EC PRIVATE KEY", der)}, nil
}

func certificate(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
