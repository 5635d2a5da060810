// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Command persistentvolumelabel is a cloud of two volumes for trying out the admission plugin
// PersistentVolumeLabel. It answers as EC2's DescribeVolumes does, without checking who asks.
package main

import (
	"context"
	"crypto/tls"
	"encoding/xml"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"

	"gatehouse.dev/apiserver/pki"
)

// zones holds the zone of each volume.
var zones = map[string]string{"vol-1": "us-east-1a", "vol-2": "us-east-1b"}

type volume struct {
	ID   string `xml:"volumeId"`
	Zone string `xml:"availabilityZone"`
}

type volumes struct {
	XMLName xml.Name `xml:"http://ec2.amazonaws.com/doc/2016-11-15/ DescribeVolumesResponse"`
	Items   []volume `xml:"volumeSet>item"`
}

type refusal struct {
	XMLName xml.Name `xml:"Response"`
	Code    string   `xml:"Errors>Error>Code"`
	Message string   `xml:"Errors>Error>Message"`
}

func serve(w http.ResponseWriter, r *http.Request) {
	id := r.PostFormValue("VolumeId.1")
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	zone, ok := zones[id]
	if !ok {
		w.WriteHeader(http.StatusBadRequest)
		xml.NewEncoder(w).Encode(refusal{Code: "InvalidVolume.NotFound", Message: "The volume '" + id +
			"' does not exist."})
		return
	}
	xml.NewEncoder(w).Encode(volumes{Items: []volume{{id, zone}}})
}

// prepare makes a certificate and the access key that admission.yaml names.
func prepare() (*tls.Config, error) {
	authority, err := pki.LoadAuthority("certificates")
	if err != nil {
		return nil, err
	}
	certificate, key, err := authority.Serving("ec2", []string{"127.0.0.1"})
	if err != nil {
		return nil, err
	}
	serving, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	credentials := []byte("[default]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = " +
		"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY\n")
	return &tls.Config{Certificates: []tls.Certificate{serving}}, os.WriteFile("aws-credentials", credentials, 0o600)
}

// run serves until ctx ends. It calls ready when the cloud can be reached.
func run(ctx context.Context, address string, ready func(address string)) error {
	config, err := prepare()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(serve), TLSConfig: config}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	ready(listener.Addr().String())
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "127.0.0.1:9444",
		func(address string) { fmt.Println("a cloud is at https://" + address) }); err != nil {
		log.Fatal(err)
	}
}
