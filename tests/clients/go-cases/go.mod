module logway.io/clients/go-cases

go 1.25.0
