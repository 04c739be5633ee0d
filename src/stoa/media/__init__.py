"""Pictures that Stoa stores: decoding, storage, addresses, fetching and removal."""
