package kube

type client struct{}
